// Render the formulas of a site with KaTeX: node formulas.js KATEX SITE
const { readFileSync, readdirSync, writeFileSync } = require("fs");
const [katex, site] = [require(process.argv[2]), process.argv[3]];
// The Markdown extension arithmatex marks formulas so.
const formula = /<(span|div) class="arithmatex">\s*\\[([](.*?)\\[)\]]\s*<\/\1>/gs;
const unescape = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&");
for (const name of readdirSync(site, { recursive: true }).filter((file) => file.endsWith(".html"))) {
  const page = readFileSync(`${site}/${name}`, "utf8");
  writeFileSync(`${site}/${name}`, page.replace(formula, (_, tag, tex) => {
    try {
      return katex.renderToString(unescape(tex).trim(), { displayMode: tag === "div", strict: "error" });
    } catch (error) {
      console.error(`${name}: ${tex} (${error.message})`);
      process.exitCode = 1;
    }
  }));
}
