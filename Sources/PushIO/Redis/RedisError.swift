/// What can fail on a Redis connection. No message holds a password.
package enum RedisError: Error, Sendable, CustomStringConvertible {
  /// The configured URL; `rule` says what is wrong.
  case invalidURL(rule: String)
  /// The server is unreachable or was lost; `cause` comes from the transport.
  case unreachable(server: String, cause: String)
  /// The server refused a step of the login (AUTH, SELECT, SCRIPT LOAD).
  case refused(server: String, step: String, RedisServerError)
  /// No answer in time; the connection was closed.
  case silent(server: String, milliseconds: Int64)
  /// The server that a Sentinel named says that it is a replica (or a Sentinel).
  case notPrimary(server: String, role: String)
  /// A Sentinel did not say where the primary is.
  case sentinel(primary: String, cause: String)
  /// The server's bytes are not RESP, or a reply exceeds the limit.
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
      "Redis at \(server) is not the primary: its role is \(role); asking another Sentinel"
    case .sentinel(let primary, let cause):
      "no Sentinel said where the primary \(primary) is: \(cause)"
    case .badReply(let server, let detail):
      "Redis at \(server) sent an invalid reply: \(detail)"
    }
  }
}
