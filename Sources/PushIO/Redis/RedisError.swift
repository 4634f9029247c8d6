/// What can go wrong with a Redis connection. No message holds a password.
package enum RedisError: Error, Sendable, CustomStringConvertible {
  /// The configured URL; `rule` says what it breaks.
  case invalidURL(rule: String)
  /// Could not reach or lost the server; `cause` is the transport's word.
  case unreachable(server: String, cause: String)
  /// The server refused a step of the greeting (AUTH, SELECT, SCRIPT LOAD).
  case refused(server: String, step: String, RedisServerError)
  /// No answer in time; the connection was given up.
  case silent(server: String, milliseconds: Int64)
  /// What a Sentinel named is a replica (or a Sentinel), by its own word.
  case notPrimary(server: String, role: String)
  /// A Sentinel did not say where the primary is.
  case sentinel(primary: String, cause: String)
  /// The server's bytes are no RESP, or a reply is over the bound.
  case badReply(server: String, detail: String)

  package var description: String {
    switch self {
    case .invalidURL(let rule):
      "Redis URL: \(rule)"
    case .unreachable(let server, let cause):
      "Redis at \(server) cannot be reached: \(cause)"
    case .refused(let server, let step, let error):
      "Redis at \(server) refused \(step): \(error)"
    case .silent(let server, let milliseconds):
      "Redis at \(server) did not answer for \(milliseconds) ms"
    case .notPrimary(let server, let role):
      "Redis at \(server) is not the primary: its role is \(role); another Sentinel is asked"
    case .sentinel(let primary, let cause):
      "no Sentinel said where the primary \(primary) is: \(cause)"
    case .badReply(let server, let detail):
      "Redis at \(server) sent what is no reply: \(detail)"
    }
  }
}
