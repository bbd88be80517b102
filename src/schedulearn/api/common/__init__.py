"""What routes share: who is calling, how answers are made, streams that many follow."""
