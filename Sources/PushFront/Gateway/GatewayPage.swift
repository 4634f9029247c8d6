import Foundation
import PushCore

/// The description of the gateway's API: as OpenAPI for programs, and as a self-contained HTML page.
struct GatewayPage: Sendable {
  static let shared = GatewayPage()

  let json: [UInt8]
  let html: [UInt8]

  private init() {
    json = Array(OpenAPIDocument.json.utf8)
    guard let document = try? JSONSerialization.jsonObject(with: Data(json)) as? [String: Any] else {
      preconditionFailure("the description is JSON")
    }
    html = Array(GatewayPage.page(document).utf8)
  }

  private static let style = """
    body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
    code,pre{font:14px/1.4 ui-monospace,monospace}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}h3{margin-bottom:.3rem}
    table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
    .method{display:inline-block;min-width:4.5rem;font-weight:700}
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#8bf}}
    """

  private static func page(_ document: [String: Any]) -> String {
    let info = document["info"] as? [String: Any] ?? [:]
    let paths = document["paths"] as? [String: [String: Any]] ?? [:]
    let tags = (document["tags"] as? [[String: Any]] ?? []).map { (text($0["name"]), text($0["description"])) }
    var html = """
      <!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
      <title>\(text(info["title"]))</title><style>\(style)</style></head><body>
      <h1>\(text(info["title"]))</h1>\(paragraphs(info["description"]))
      <p>For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
      """
    for (tag, description) in tags {
      html += "<h2>\(tag)</h2><p>\(description)</p>"
      for (path, methods) in paths.sorted(by: { $0.key < $1.key }) {
        for method in ["get", "post", "put", "delete"] {
          guard let operation = methods[method] as? [String: Any],
            (operation["tags"] as? [String])?.contains(tag) ?? false
          else { continue }
          html += self.operation(method, path, operation, document)
        }
      }
    }
    html += "<h2>Problems</h2><table><tr><th>type<th>status<th>meaning</tr>"
    for kind in Problem.Kind.allCases {
      html += "<tr id=\"\(kind.rawValue)\"><td><code>\(kind.rawValue)</code><td>\(kind.status)<td>\(kind.title)</tr>"
    }
    return html + "</table></body></html>\n"
  }

  private static func operation(
    _ method: String, _ path: String, _ operation: [String: Any], _ document: [String: Any]
  ) -> String {
    var html = """
      <h3 id="\(text(operation["operationId"]))"><code><span class="method">\(method.uppercased())</span>\(escaped(path))</code></h3>
      <p>\(text(operation["summary"]))</p>\(paragraphs(operation["description"]))<table>
      """
    for item in operation["parameters"] as? [[String: Any]] ?? [] {
      let parameter = resolved(item, document)
      html += "<tr><td><code>\(text(parameter["name"]))</code><td>\(text(parameter["in"]))"
      html += "<td>\(text(parameter["description"]))</tr>"
    }
    for (status, item) in (operation["responses"] as? [String: [String: Any]] ?? [:]).sorted(by: { $0.key < $1.key }) {
      html += "<tr><td>\(escaped(status))<td>answer<td>\(text(resolved(item, document)["description"]))</tr>"
    }
    return html + "</table>"
  }

  /// Follows `$ref`.
  private static func resolved(_ item: [String: Any], _ document: [String: Any]) -> [String: Any] {
    guard let reference = item["$ref"] as? String else { return item }
    var place: Any? = document
    for word in reference.split(separator: "/").dropFirst() { place = (place as? [String: Any])?[String(word)] }
    return place as? [String: Any] ?? [:]
  }

  private static func paragraphs(_ value: Any?) -> String {
    text(value).split(separator: "\n\n").map { "<p>\($0)</p>" }.joined()
  }

  private static func text(_ value: Any?) -> String { escaped(value as? String ?? "") }

  private static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
      .replacing("\"", with: "&quot;")
  }
}
