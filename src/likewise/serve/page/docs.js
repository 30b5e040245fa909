// Renders the OpenAPI document, without scripts from other hosts.

const make = (tag, text, ...inside) => {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...inside);
  return element;
};

function parameters(route) {
  const rows = (route.parameters ?? []).map((p) => {
    const about = p.schema?.description ?? p.description ?? JSON.stringify(p.schema);
    const cells = [p.in, p.required ? "required" : "", about].map((text) => make("td", text));
    return make("tr", "", make("td", "", make("code", p.name)), ...cells);
  });
  return rows.length ? [make("table", "", ...rows)] : [];
}

function body(route, schemas) {
  return Object.entries(route.requestBody?.content ?? {}).map(([kind, { schema }]) => {
    const name = schema?.$ref?.split("/").pop();
    return make("pre", `${kind}\n${JSON.stringify(name ? schemas[name].properties : schema, null, 1)}`);
  });
}

const whole = await (await fetch("/api/openapi.json")).json();
for (const [path, methods] of Object.entries(whole.paths)) {
  for (const [method, route] of Object.entries(methods)) {
    const head = make("summary", "", make("b", method.toUpperCase()), make("code", path), make("span", route.summary));
    const about = make("p", route.description);
    const details = make("details", "", head, about, ...parameters(route), ...body(route, whole.components.schemas));
    document.getElementById("routes").append(details);
  }
}
