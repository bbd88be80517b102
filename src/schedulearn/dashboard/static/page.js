// For every page: the theme, which is kept in this browser, and times in the reader's own time zone.
window.schedulearn = {
  theme: () => localStorage.getItem("schedulearn-theme") || "auto",
  isDark() {
    const theme = this.theme();
    return theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
  },
  apply() {
    document.documentElement.dataset.theme = this.isDark() ? "dark" : "light";
    window.Quasar?.Dark?.set(this.isDark());
  },
  turn() {
    localStorage.setItem("schedulearn-theme", this.isDark() ? "light" : "dark");
    this.apply();
  },
  moment(at) {
    const day = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString("sv") + " ";
    return day + at.toLocaleTimeString([], { hour12: false });
  },
  localise(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      time.textContent = this.moment(at);
      time.title = at.toLocaleString();
    }
  },
};
window.schedulearn.apply();
addEventListener("load", () => window.schedulearn.apply());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.schedulearn.apply());
addEventListener("click", (event) => {
  if (event.target.closest("#theme")) window.schedulearn.turn();
});
