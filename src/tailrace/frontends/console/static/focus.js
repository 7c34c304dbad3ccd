// Moving through a list with the arrow keys.

const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/**
 * Up, down, Home and End move the focus among the elements of a list.
 * @param {KeyboardEvent} event @param {string} selector of its elements
 */
export function moveFocus(event, selector) {
  const items = [...event.currentTarget.parentElement.querySelectorAll(selector)];
  const place = items.indexOf(document.activeElement);
  const next = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : place + STEPS[event.key];
  if (place < 0 || !items[next]) return;
  event.preventDefault();
  items[next].focus();
}
