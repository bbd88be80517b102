// The output of a job: a text that grows, and is followed while its end is in view.
const MOST = 400000; // characters that are kept in the page

export default {
  template: `<pre class="output" tabindex="0" role="log" aria-label="Output"></pre>`,
  methods: {
    add(text) {
      const box = this.$el;
      const following = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      const all = box.textContent + text;
      if (all.length > MOST) box.textContent = "… " + all.slice(all.indexOf("\n", all.length - MOST / 2) + 1);
      else box.append(text);
      if (following) box.scrollTop = box.scrollHeight;
    },
    clear() {
      this.$el.textContent = "";
    },
  },
};
