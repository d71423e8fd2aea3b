"""The parts of the page that are the same for every study."""

from typing import Final

#: What the page may do: run what is in it and draw; nothing is loaded, and nothing is sent.
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { color: #57606a; } pre { background: #f4f6f8; padding: .7rem; overflow-x: auto; }
table { border-collapse: collapse; } th { text-align: left; }
th, td { padding: .2rem .7rem .2rem 0; vertical-align: top; }
.head th { font-weight: 600; color: #57606a; } .head td { overflow-wrap: anywhere; }
.wide { overflow: auto; max-height: 80vh; } .drawn { overflow-x: auto; }
.trials { font-size: 13px; } .trials td { white-space: nowrap; border-top: 1px solid #e6e9ed; }
.trials th { position: sticky; top: 0; background: #fff; cursor: pointer; }
.n { text-align: right; font-variant-numeric: tabular-nums; } .best { background: #e7f6ec; }
.failed { color: #a40e26; }
"""

#: Draws each plot by itself, so that one that a browser cannot draw does not take the others along.
SCRIPT: Final = """
for (const found of document.querySelectorAll("script[data-plot]")) {
  const place = document.getElementById(found.dataset.plot);
  const fail = (error) => { place.textContent = "This plot cannot be drawn here: " + error;
    place.classList.add("failed"); };
  try {
    const figure = JSON.parse(found.textContent);
    Plotly.newPlot(place, figure.data, figure.layout, { responsive: true, displaylogo: false })
      .catch(fail);
  } catch (error) { fail(error); }
}
for (const table of document.querySelectorAll("table.trials")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    let sign = -1;
    head.addEventListener("click", () => {
      sign = -sign;
      const text = (row) => row.cells[column].textContent;
      const rank = (one, other) => {
        if (!text(one) || !text(other)) { return !text(one) - !text(other); }
        const gap = Number(text(one)) - Number(text(other));
        return sign * (Number.isNaN(gap) ? text(one).localeCompare(text(other)) : gap);
      };
      body.append(...[...body.rows].sort(rank));
    });
  });
}
"""
