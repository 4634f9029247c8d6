/// The two queues: a bulk backlog never delays transactional jobs.
package enum JobClass: UInt8, CaseIterable, Sendable {
  case transactional
  case bulk

  /// The routing key of the jobs exchange, and the word in queue names.
  package var name: String {
    switch self {
    case .transactional: "transactional"
    case .bulk: "bulk"
    }
  }
}
