// The theme: the reader's system decides until the reader does.
const root = document.documentElement, theme = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
function showTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "Switch to light colors" : "Switch to dark colors");
}
theme.hidden = false;
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; showTheme(); });
system.addEventListener("change", showTheme);
showTheme();
