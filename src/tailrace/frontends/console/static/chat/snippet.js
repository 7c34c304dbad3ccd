// A request as something to run elsewhere: a curl command, or a few lines of Python with OpenAI's client.

const OWN_FIELDS = ["thinking"]; // which OpenAI's client does not know

/** @param {object} body @param {string} origin such as http://127.0.0.1:8000 @param {boolean} hasKey */
export function curl(body, origin, hasKey) {
  const parts = [
    `curl --no-buffer ${quoted(`${origin}/v1/chat/completions`)}`,
    `-H 'Content-Type: application/json'`,
    ...(hasKey ? [`-H "Authorization: Bearer $TAILRACE_API_KEY"`] : []),
    `-d ${quoted(JSON.stringify(body, null, 2))}`,
  ];
  return parts.join(" \\\n  ") + "\n";
}

// Between single quotes a shell takes everything as it stands, but for the quote.
function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @param {object} body @param {string} origin @param {boolean} hasKey */
export function python(body, origin, hasKey) {
  const { stream, stream_options, ...fields } = body;
  const own = Object.fromEntries(OWN_FIELDS.filter((name) => name in fields).map((name) => [name, fields[name]]));
  const known = Object.entries(fields).filter(([name]) => !(name in own));
  const named = known.map(([name, value]) => `    ${name}=${literal(value, 1)},`);
  if (Object.keys(own).length) named.push(`    extra_body=${literal(own, 1)},`);
  return `${hasKey ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url=${literal(`${origin}/v1`)}, api_key=${hasKey ? 'os.environ["TAILRACE_API_KEY"]' : '"none"'})
stream = client.chat.completions.create(
${named.join("\n")}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
`;
}

/** A value as Python writes it. JSON's strings are Python's. */
function literal(value, depth = 0) {
  if (Array.isArray(value)) return between("[", "]", value.map((each) => literal(each, depth + 1)), depth);
  if (value !== null && typeof value === "object") {
    const items = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each, depth + 1)}`);
    return between("{", "}", items, depth);
  }
  if (typeof value === "string") return JSON.stringify(value);
  return { true: "True", false: "False", null: "None" }[String(value)] ?? String(value);
}

function between(opening, closing, items, depth) {
  const line = opening + items.join(", ") + closing;
  if (line.length <= 88) return line;
  const indent = "    ".repeat(depth + 1);
  return `${opening}\n${items.map((item) => `${indent}${item},\n`).join("")}${"    ".repeat(depth)}${closing}`;
}
