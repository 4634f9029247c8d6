/// The two queues: a bulk backlog never delays transactional jobs.
package enum JobClass: UInt8, CaseIterable, Sendable {
  case transactional
  case bulk

  /// The one that the compiler makes is generic for other modules.
  @inlinable
  package static func == (one: JobClass, other: JobClass) -> Bool {
    switch (one, other) {
    case (.transactional, .transactional), (.bulk, .bulk): true
    default: false
    }
  }

  /// The routing key of the jobs exchange, and the word in queue names.
  package var name: String {
    switch self {
    case .transactional: "transactional"
    case .bulk: "bulk"
    }
  }
}
