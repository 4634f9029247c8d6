/// What refuses messages, and what is logged about it.
package struct RefusedDestination: Hashable, Sendable {
  /// Of the exchange or queue.
  package let name: String
  /// It refuses the outcomes of this app; nil: whatever is published to it.
  package let app: String?

  package init(name: String, app: String?) {
    self.name = name
    self.app = app
  }

  private var ofApp: String { app.map { " of \($0)" } ?? "" }

  package var begun: String {
    """
    \(name) refuses messages\(ofApp): a queue that gets them is full (x-overflow reject-publish) or has no leader; empty it, lift its \
    limit, or unbind it; meanwhile one message tries it again and again, and the others\(ofApp) wait
    """
  }

  package func over(milliseconds: Int64) -> String {
    "\(name) takes messages\(ofApp) again; it refused some for \(milliseconds) ms"
  }

  /// In `/readyz`.
  package var problem: String { "\(name) refuses what is published to it\(app.map { " for \($0)" } ?? "")" }
}
