// A file of the reader's own, read in the browser and sent in pieces over the page's own connection.
const PIECE = 150000; // characters: a message must not be too large

export default {
  template: `<label class="pick"><span>{{ label }}</span><input type="file" @change="read"></label>`,
  props: { label: String, most: Number },
  methods: {
    async read(event) {
      const file = event.target.files[0];
      if (!file) return;
      const text = file.size > this.most ? "" : await file.text();
      let at = 0;
      do {
        let end = at + PIECE;
        if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end += 1; // both halves of a character
        const last = end >= text.length;
        this.$emit("piece", { name: file.name, size: file.size, text: text.slice(at, end), first: at === 0, last });
        at = end;
      } while (at < text.length);
    },
  },
};
