// Light or dark: the browser's wish, unless the reader has chosen. A classic script, so that nothing flashes before it ran.

(() => {
  const KEY = "tailrace.theme";
  const root = document.documentElement;

  function chosen() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be forbidden
    }
  }

  function apply(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  apply(chosen());

  globalThis.theme = {
    /** Whether the page is dark right now. */
    isDark: () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark",

    /** The other one, from now on. */
    toggle() {
      const next = this.isDark() ? "light" : "dark";
      apply(next);
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // it holds for this page alone
      }
      dispatchEvent(new Event("themechange"));
    },
  };
})();
