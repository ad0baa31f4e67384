// Tabs and their panels, as WAI-ARIA has them: one tab is selected and in the order of the Tab key,
// the arrow keys, Home and End walk the others.

/** Where a key leads from place `here` of `count` in a ring; undefined for any other key. */
export function ringPosition(key, index, count) {
  return { ArrowRight: (index + 1) % count, ArrowLeft: (index + count - 1) % count, Home: 0, End: count - 1 }[key];
}

/**
 * Let `tabs` switch between `panels`; the function that is returned chooses one, and `then` hears of it.
 * @param {HTMLElement[]} tabs @param {HTMLElement[]} panels @param {(index: number) => void} then
 */
export function connectTabs(tabs, panels, then = () => {}) {
  const choose = (index, { focus = false } = {}) => {
    tabs.forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(k === index));
      tab.tabIndex = k === index ? 0 : -1;
    });
    panels.forEach((panel, k) => { panel.hidden = k !== index; });
    if (focus) tabs[index].focus();
    then(index);
  };
  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => choose(k));
    tab.addEventListener("keydown", (event) => {
      const upright = tab.closest("[aria-orientation=vertical]") && { ArrowDown: "ArrowRight", ArrowUp: "ArrowLeft" }[event.key];
      const target = ringPosition(upright || event.key, k, tabs.length);
      if (target === undefined) return;
      event.preventDefault();
      choose(target, { focus: true });
    });
  });
  return choose;
}
