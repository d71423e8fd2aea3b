/** Sets the chosen theme before the first paint; a blocking script of its own for that reason. */

try {
  const choice = localStorage.getItem("trainshed.theme");
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
} catch {
  // A browser that forbids storage gets the theme of its system.
}
