import Glibc

/// How many descriptors this process may have.
package enum OpenFiles {
  /// Raises the soft limit to the hard one: the usual 1,024 is for programs that `select`, and connections from outside could use them up.
  package static func raiseLimit() {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max
    else { return }
    limit.rlim_cur = limit.rlim_max
    _ = unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }

  /// The soft limit; nil: unknown.
  package static var limit: UInt64? {
    var limit = rlimit()
    return unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? UInt64(limit.rlim_cur) : nil
  }
}
