/// Which app a topic belongs to: the longest one that it is, or begins with before a dot. So `com.example.app.voip` is a topic of
/// `com.example.app`, and `com.example.app.beta` is not, where that is an app of its own.
package struct TopicOwners: Sendable {
  private let apps: Set<String>

  /// - Parameter apps: of all credentials.
  package init(_ apps: some Sequence<String> = []) {
    self.apps = Set(apps)
  }

  /// nil: it belongs to none of the apps.
  package func owner(of topic: String) -> String? {
    var name = topic[...]
    while !apps.contains(String(name)) {
      guard let dot = name.lastIndex(of: ".") else { return nil }
      name = name[..<dot]
    }
    return String(name)
  }

  /// Whether the job's topic is its app's, and no longer one's.
  package func isOwn(_ job: borrowing PushJob) -> Bool {
    guard job.hasTopicOfItsApp else { return false }
    if job.topic.count <= job.app.count { return true }
    guard let owner = owner(of: String(decoding: job.bytes[job.topic.range], as: UTF8.self)) else { return true }
    return owner.utf8.count <= Int(job.app.count)
  }
}
