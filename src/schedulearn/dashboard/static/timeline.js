// How the timeline is drawn by ECharts: servers as bands, jobs as bars on them. The figures come from views/timeline.py.
(() => {
  const GREY = "#8791a0";
  const [RUNS, FAILED] = [1, 2];

  function rect(x, y, width, height, fill, r = 0) {
    return { type: "rect", shape: { x, y, width, height, r }, style: { fill } };
  }

  schedulearn.band = ({ coordSys: area }, api) => {
    const y = area.y + api.value(1);
    const name = { text: api.ordinalRawValue(3), x: area.x + 8, y: y + 6, fill: GREY, fontSize: 12, fontWeight: 600 };
    return {
      type: "group",
      children: [
        rect(area.x, y, area.width, api.value(2) - 4, "rgba(128,140,160,.09)", 6),
        { type: "text", style: name },
      ],
    };
  };

  schedulearn.bar = ({ coordSys: area }, api) => {
    const [from, to] = [api.coord([api.value(0), 0])[0], api.coord([api.value(1), 0])[0]];
    const left = Math.max(from, area.x);
    const width = Math.max(Math.min(Math.max(to, from + 2), area.x + area.width) - left, 0);
    if (!width) return null;
    const [y, height, how] = [area.y + api.value(2), api.value(3), api.value(4)];
    const bar = rect(left, y, width, height, api.visual("color"), Math.min(4, width / 2));
    bar.emphasis = { style: { stroke: GREY, lineWidth: 1.5 } };
    if (width > 26 && height > 11) {
      const text = api.ordinalRawValue(5);
      bar.textContent = { style: { text, fill: "#fff", fontSize: 11, width: width - 10, overflow: "truncate" } };
      bar.textConfig = { position: "insideLeft", distance: 5 };
    }
    if (how !== FAILED) return bar;
    return { type: "group", children: [bar, rect(left + width - 3, y, 3, height, "#e5484d")] };
  };

  // Made of elements, not of markup: names are shown as they are written.
  schedulearn.tip = ({ data }) => {
    const box = document.createElement("div");
    const add = (tag, text, parent = box) => Object.assign(parent.appendChild(document.createElement(tag)), { textContent: text });
    if (!data?.facts) return "";
    add("b", data.name);
    const times = [["from", schedulearn.moment(new Date(data.value[0]))]];
    if (data.value[4] !== RUNS) times.push(["to", schedulearn.moment(new Date(data.value[1]))]);
    for (const [name, value] of [...data.facts, ...times]) {
      const line = add("div", "");
      add("small", name + " ", line);
      add("span", value, line);
    }
    return box;
  };
})();
