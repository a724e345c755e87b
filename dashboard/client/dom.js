// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

/**
 * Elements. Whatever comes from a job is set as text, and never read as HTML.
 */

/** @type {<T extends HTMLElement = HTMLElement>(id: string) => T} */
export const byId = (id) => {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return /** @type {any} */ (found);
};

/**
 * Makes an element. Of its properties, those with a dash and `role` are attributes; `undefined` and `null` children are left out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "scope" || name === "for") {
      made.setAttribute(name, String(value));
    } else Reflect.set(made, name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** @param {Element} element @param {string | number} text Set where it differs, so that a selection in it stays. */
export function write(element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
}

/**
 * Makes a container's children those of the items, in their order: what stays is kept, and with it the focus.
 *
 * @template Item
 * @param {Element} container
 * @param {readonly Item[]} items
 * @param {(item: Item) => string} key
 * @param {(item: Item) => HTMLElement} create
 * @param {(element: HTMLElement, item: Item) => void} update
 */
export function fill(container, items, key, create, update) {
  /** @type {Map<string | undefined, HTMLElement>} */
  const old = new Map();
  for (const child of container.children) {
    if (child instanceof HTMLElement) old.set(child.dataset.key, child);
  }
  /** @type {Element | null} */
  let next = container.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = old.get(name);
    if (element === undefined) {
      element = create(item);
      element.dataset.key = name;
    } else old.delete(name);
    update(element, item);
    if (element === next) next = next.nextElementSibling;
    else container.insertBefore(element, next);
  }
  for (const element of old.values()) element.remove();
}

/** @param {HTMLElement} root @param {string} part @returns {HTMLElement} The element of that `data-part` within another. */
export function part(root, part) {
  const found = root.querySelector(`[data-part="${part}"]`);
  if (!(found instanceof HTMLElement)) throw new Error(`there is no part ${part}`);
  return found;
}

/** @param {string} text @param {() => unknown} click @param {Record<string, unknown>} [properties] */
export function button(text, click, properties = {}) {
  return make("button", { type: "button", onclick: click, ...properties }, text);
}
