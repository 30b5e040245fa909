// Renders the OpenAPI document, without scripts from other hosts.

const made = (tag, text, ...inside) => {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...inside);
  return element;
};

function parameters(route) {
  const rows = (route.parameters ?? []).map((p) => {
    const about = p.schema?.description ?? p.description ?? JSON.stringify(p.schema);
    const cells = [p.in, p.required ? "required" : "", about].map((text) => made("td", text));
    return made("tr", "", made("td", "", made("code", p.name)), ...cells);
  });
  return rows.length ? [made("table", "", ...rows)] : [];
}

function body(route, schemas) {
  return Object.entries(route.requestBody?.content ?? {}).map(([kind, { schema }]) => {
    const name = schema?.$ref?.split("/").pop();
    return made("pre", `${kind}\n${JSON.stringify(name ? schemas[name].properties : schema, null, 1)}`);
  });
}

const whole = await (await fetch("/api/openapi.json")).json();
for (const [path, methods] of Object.entries(whole.paths)) {
  for (const [method, route] of Object.entries(methods)) {
    const head = made("summary", "", made("b", method.toUpperCase()), made("code", path), made("span", route.summary));
    const about = made("p", route.description);
    const details = made("details", "", head, about, ...parameters(route), ...body(route, whole.components.schemas));
    document.getElementById("routes").append(details);
  }
}
