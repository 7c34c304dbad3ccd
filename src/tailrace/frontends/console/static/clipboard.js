// Copying text. Pages without TLS, other than those of this machine, have no clipboard: there an old command helps.

/** @param {string} text @returns {Promise<boolean>} whether it is in the clipboard */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByCommand(text);
  }
}

function copiedByCommand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "only-read";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
