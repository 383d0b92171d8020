// The one-time link is /in#SECRET. What is behind # is never sent with an address: it is taken out of the address here,
// before anything else happens, and posted.
"use strict";
(() => {
  const form = document.getElementById("in");
  if (!form) return;
  const secret = location.hash.slice(1);
  history.replaceState(null, "", "/in");
  if (secret) {
    form.elements.link.value = secret;
    form.submit();
  } else {
    document.getElementById("in-none").hidden = false;
    const title = document.getElementById("in-title");
    title.textContent = title.dataset.none;
  }
})();
