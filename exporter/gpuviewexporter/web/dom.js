// This module contains small helper functions for the DOM.
export const $ = (id) => document.getElementById(id);

export const node = (tag, text = "", className = "") => {
  const e = document.createElement(tag);
  e.textContent = text;
  if (className) e.className = className;
  return e;
};
