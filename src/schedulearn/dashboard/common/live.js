// Markup made by the server. New markup is compared with what is there, and only the difference is changed.
export default {
  template: `<component :is="tag" class="live"></component>`,
  props: { markup: String, tag: String },
  mounted() {
    this.draw();
    const here = this.$el.querySelector("nav [aria-current=page]");
    if (here) here.parentElement.scrollLeft = here.offsetLeft - 100; // where there is little room for all places
    this.$el.addEventListener("click", (event) => this.follow(event));
    this.$el.addEventListener("submit", (event) => this.ask(event));
    if (this.$attrs.onGo) window.addEventListener("popstate", this.back);
  },
  unmounted() {
    window.removeEventListener("popstate", this.back);
  },
  watch: {
    markup() {
      this.draw();
    },
  },
  methods: {
    draw() {
      const fresh = this.$el.cloneNode(false);
      fresh.innerHTML = this.markup;
      window.schedulearn.localise(fresh);
      morph(this.$el, fresh);
    },
    // A link with data-go changes the address, and the server draws this part anew: no page is loaded.
    follow(event) {
      const link = event.target.closest("a[data-go]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.go(link.getAttribute("href"));
    },
    ask(event) {
      if (!event.target.matches("form[data-go]")) return;
      event.preventDefault();
      const given = [...new FormData(event.target)].filter(([, value]) => value !== "");
      this.go(event.target.getAttribute("action") + "?" + new URLSearchParams(given));
    },
    go(address) {
      history.pushState({}, "", address);
      this.$emit("go", location.search);
    },
    back() {
      this.$emit("go", location.search);
    },
  },
};

function morph(now, fresh) {
  let child = now.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    if (!child) {
      now.append(wanted);
      continue;
    }
    const next = child.nextSibling;
    if (!alike(child, wanted)) {
      now.replaceChild(wanted, child);
    } else if (child.nodeType === Node.ELEMENT_NODE) {
      attributes(child, wanted);
      morph(child, wanted);
    } else if (child.nodeValue !== wanted.nodeValue) {
      child.nodeValue = wanted.nodeValue;
    }
    child = next;
  }
  while (child) {
    const next = child.nextSibling;
    child.remove();
    child = next;
  }
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && one.id === other.id;
}

function attributes(now, fresh) {
  for (const { name } of [...now.attributes]) {
    // What a person has opened stays open.
    if (!fresh.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
}
