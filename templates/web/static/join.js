// A newcomer's key. One that is made here is made by the browser; its private half is saved as a file and never sent.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const token = location.hash.slice(1);
  history.replaceState(null, "", "/join");
  const known = { name: "", file: "id_ed25519", host: "", port: "", user: "" };
  let saved = null;

  const fill = () => {
    for (const place of document.querySelectorAll("[data-fill]")) place.textContent = known[place.dataset.fill];
  };
  const trouble = (text) => {
    byId("join-trouble").textContent = text;
    byId("join-trouble").hidden = !text;
  };
  const ask = async (path, fields) => {
    const answer = await fetch(path, { method: "POST", body: new URLSearchParams(fields), credentials: "same-origin" });
    const text = await answer.text();
    let told = { error: text };
    try {
      told = JSON.parse(text);
    } catch {
      // A proxy's own page, or plain words.
    }
    if (!answer.ok) throw new Error(told.error || String(answer.status));
    return told;
  };

  // RFC 4253's strings, and the file that ssh-keygen writes (PROTOCOL.key of OpenSSH), without a passphrase.
  const joined = (...parts) => {
    const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
    return whole;
  };
  const text = (words) => new TextEncoder().encode(words);
  const number = (value) => new Uint8Array([value >>> 24, value >>> 16, value >>> 8, value]);
  const string = (bytes) => joined(number(bytes.length), bytes);
  const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
  const sshKey = (seed, open, comment) => {
    const kind = text("ssh-ed25519");
    const blob = joined(string(kind), string(open));
    const check = crypto.getRandomValues(new Uint8Array(4));
    let secret = joined(check, check, string(kind), string(open), string(joined(seed, open)), string(text(comment)));
    for (let pad = 1; secret.length % 8; pad += 1) secret = joined(secret, new Uint8Array([pad]));
    const none = string(text("none"));
    const file = joined(text("openssh-key-v1\0"), none, none, string(new Uint8Array(0)), number(1), string(blob), string(secret));
    const lines = base64(file).match(/.{1,70}/g).join("\n");
    return {
      open: `ssh-ed25519 ${base64(blob)} ${comment}`,
      file: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
    };
  };
  const make = async () => {
    const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
    const seed = new Uint8Array(await crypto.subtle.exportKey("pkcs8", pair.privateKey)).slice(-32);
    const open = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
    return sshKey(seed, open, `${known.name}@lxgpu`);
  };
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([saved], { type: "application/octet-stream" }));
    link.download = known.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  const joinedBy = (told) => {
    byId("joined-said").textContent = told.text || "";
    const way = told.ssh;
    if (way && way.host) Object.assign(known, { host: way.host, port: String(way.port), user: way.user });
    byId("ways").hidden = !(way && way.host);
    byId("later").hidden = Boolean(way && way.host);
    fill();
    byId("bring").hidden = true;
    byId("joined").hidden = false;
    byId("joined").focus();
  };
  const bring = async (key) => {
    trouble("");
    joinedBy(await ask("/join/key", { token, key }));
  };
  let made = null;
  const busily = async (button, work) => {
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      trouble(error.message);
    } finally {
      button.disabled = false;
    }
  };

  byId("make").addEventListener("click", (event) =>
    busily(event.target, async () => {
      try {
        made = made || (await make());
      } catch {
        byId("make-not").hidden = false;
        return;
      }
      known.file = `lxgpu_${known.name}`;
      // The private half is kept first: the key may be taken although the answer gets lost. Once more brings the same one.
      if (!saved) {
        saved = made.file;
        save();
      }
      await bring(made.open);
      byId("saved").hidden = false;
    }),
  );
  byId("again").addEventListener("click", save);
  byId("paste").addEventListener("submit", (event) => {
    event.preventDefault();
    busily(event.target.querySelector("button"), () => bring(event.target.elements.key.value.trim()));
  });
  if (!token) {
    byId("join-none").hidden = false;
  } else {
    ask("/join/look", { token }).then(
      (told) => {
        known.name = told.name;
        if (told.taken) {
          if (told.taken.comment === `${told.name}@lxgpu`) known.file = `lxgpu_${told.name}`;
          joinedBy(told.taken);
          return;
        }
        fill();
        byId("bring").hidden = false;
      },
      (error) => trouble(error.message),
    );
  }
})();
