/// A process that a test starts: in a session of its own, without our descriptors; it never outlives us.
import Foundation
import Glibc
import Synchronization

package final class ChildProcess: Sendable {
  /// The result of a finished command.
  package struct Output: Sendable {
    /// The exit status, or 128 and the signal that ended it.
    package var status: Int32
    package var output: String
    package var errors: String
  }

  private enum State {
    case running
    case ended(status: Int32)
  }

  /// The process and, being its session's leader, the group of everything that it starts.
  package let pid: Int32
  /// The program's name, for messages.
  package let name: String
  private let state: Mutex<State>

  /// Starts a program: `arguments[0]` is its absolute path. `environment`: `NAME=value`; nil passes ours on.
  /// `output` and `errors` are files to append to (nil: /dev/null), `input` one to read from.
  package init(
    _ arguments: [String], environment: [String]? = nil, input: String? = nil, output: String? = nil,
    errors: String? = nil
  ) throws(TestFailure) {
    precondition(!arguments.isEmpty, "a program's path comes first")
    var inputDescriptor: Int32 = -1
    if let input {
      inputDescriptor = unsafe open(input, O_RDONLY | O_CLOEXEC)
      guard inputDescriptor >= 0 else { throw TestFailure("cannot read \(input): \(Self.text(of: errno))") }
    }
    defer { if inputDescriptor >= 0 { close(inputDescriptor) } }
    pid = try Self.spawn(
      arguments, environment: environment, input: inputDescriptor >= 0 ? inputDescriptor : nil, output: output,
      errors: errors)
    name = arguments[0].split(separator: "/").last.map(String.init) ?? arguments[0]
    state = Mutex(.running)
    Watchdog.shared.remember(group: pid)
  }

  deinit {
    kill()
  }

  package var isRunning: Bool {
    exitStatus == nil
  }

  /// The exit status, or 128 and the signal; nil while it runs.
  package var exitStatus: Int32? {
    state.withLock { state in
      if case .ended(let status) = state { return status }
      var raw: Int32 = 0
      guard unsafe waitpid(pid, &raw, WNOHANG) == pid else { return nil }
      let status = raw & 0x7f == 0 ? (raw >> 8) & 0xff : 128 + (raw & 0x7f)
      state = .ended(status: status)
      return status
    }
  }

  /// Sends a signal to the process and everything that it started.
  package func signal(_ number: Int32) {
    state.withLock { state in
      // Once it was reaped, another process may have its id.
      if case .running = state { _ = Glibc.kill(-pid, number) }
    }
  }

  /// Sends a signal to the process alone.
  package func signalLeader(_ number: Int32) {
    state.withLock { state in
      if case .running = state { _ = Glibc.kill(pid, number) }
    }
  }

  /// Waits until it ended; nil if it still runs after that time.
  @discardableResult
  package func wait(timeoutMilliseconds: Int) -> Int32? {
    Self.poll(timeoutMilliseconds: timeoutMilliseconds) { self.exitStatus }
  }

  /// Sends SIGTERM, and SIGKILL if it still runs after that time.
  package func stop(timeoutMilliseconds: Int = 15_000) {
    signal(SIGTERM)
    signal(SIGCONT)
    wait(timeoutMilliseconds: timeoutMilliseconds)
    kill()
  }

  /// Ends it and everything that it started at once, as a crash would.
  package func kill() {
    signal(SIGKILL)
    wait(timeoutMilliseconds: 5_000)
    Watchdog.shared.forget(group: pid)
  }

  /// Suspends it, like a process that hangs; its sockets stay open. Returns once it stands still: the kernel stops a thread when it is
  /// scheduled next, and others of its process go on answering until then.
  package func pause() {
    signal(SIGSTOP)
    let isStill = Self.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 1) { isStandingStill ? true : nil }
    precondition(isStill == true, "\(name) was not suspended within 10 s")
  }

  package func resume() { signal(SIGCONT) }

  /// No thread of the group runs.
  private var isStandingStill: Bool {
    for process in Self.entries(of: "/proc") where Int32(process) != nil {
      guard let facts = Self.facts(of: "/proc/\(process)"), facts.group == pid else { continue }
      for thread in Self.entries(of: "/proc/\(process)/task") {
        guard let facts = Self.facts(of: "/proc/\(process)/task/\(thread)") else { continue }
        // Stopped, or ended.
        guard "TtZX".contains(facts.state) else { return false }
      }
    }
    return true
  }

  private static func entries(of folder: String) -> [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
  }

  /// The state and the group in a process's or a thread's `stat`, behind its name; nil: it is gone.
  private static func facts(of folder: String) -> (state: Substring, group: Int32)? {
    guard let text = try? String(contentsOfFile: "\(folder)/stat", encoding: .utf8), let end = text.lastIndex(of: ")")
    else { return nil }
    let fields = text[text.index(after: end)...].split(separator: " ", maxSplits: 3)
    guard fields.count > 2, let group = Int32(fields[2]) else { return nil }
    return (fields[0], group)
  }

  /// Runs a command to its end. Throws if it does not end within that time.
  package static func run(
    _ arguments: [String], environment: [String]? = nil, input: String? = nil, timeoutMilliseconds: Int = 30_000
  ) throws(TestFailure) -> Output {
    let folder = try TemporaryFolder("run")
    if let input { try folder.write(input, to: "input") }
    let child = try ChildProcess(
      arguments, environment: environment, input: input == nil ? nil : folder.path("input"),
      output: folder.path("output"), errors: folder.path("errors"))
    guard let status = child.wait(timeoutMilliseconds: timeoutMilliseconds) else {
      child.kill()
      throw TestFailure("\(arguments.joined(separator: " ")) did not end within \(timeoutMilliseconds) ms")
    }
    Watchdog.shared.forget(group: child.pid)
    return Output(status: status, output: folder.read("output"), errors: folder.read("errors"))
  }

  /// Calls the closure again and again until it returns a value; nil if there is none in time.
  package static func poll<Answer, Failure: Error>(
    timeoutMilliseconds: Int, everyMilliseconds: Int = 10, _ question: () throws(Failure) -> Answer?
  ) throws(Failure) -> Answer? {
    let clock = ContinuousClock()
    let deadline = clock.now.advanced(by: .milliseconds(timeoutMilliseconds))
    while true {
      if let answer = try question() { return answer }
      guard clock.now < deadline else { return nil }
      usleep(UInt32(everyMilliseconds * 1000))
    }
  }

  /// The absolute path of a program: the first of `candidates` that can be run, then the search path.
  package static func find(_ program: String, candidates: [String] = []) -> String? {
    let folders = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? "/usr/bin:/bin:/usr/sbin:/sbin"
    let search = (folders + ":/usr/sbin:/sbin:/usr/local/bin").split(separator: ":").map { "\($0)/\(program)" }
    return (candidates + search).first { unsafe access($0, X_OK) == 0 }
  }

  /// Our environment without the names given, as `NAME=value`.
  package static func inheritedEnvironment(without prefixes: [String] = []) -> [String] {
    var result: [String] = []
    var next = unsafe environ
    while let entry = unsafe next.pointee {
      let text = unsafe String(cString: entry)
      if !prefixes.contains(where: { text.hasPrefix($0) }) { result.append(text) }
      unsafe next += 1
    }
    return result
  }

  static func text(of code: Int32) -> String {
    unsafe String(cString: strerror(code))
  }

  /// One past our highest descriptor, with a margin for those that other threads open meanwhile.
  private static func openDescriptorsEnd() -> Int32 {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return (names.compactMap(Int32.init).max() ?? 255) + 33
  }

  /// Starts a program as the leader of a new session, with default signals and only descriptors 0, 1 and 2.
  static func spawn(
    _ arguments: [String], environment: [String]?, input: Int32?, output: String?, errors: String?
  ) throws(TestFailure) -> pid_t {
    var actions = unsafe posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    unsafe posix_spawn_file_actions_init(&actions)
    unsafe posix_spawnattr_init(&attributes)
    defer {
      unsafe posix_spawn_file_actions_destroy(&actions)
      unsafe posix_spawnattr_destroy(&attributes)
    }
    if let input {
      unsafe posix_spawn_file_actions_adddup2(&actions, input, 0)
    } else {
      unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    }
    let flags = O_WRONLY | O_CREAT | O_APPEND
    unsafe posix_spawn_file_actions_addopen(&actions, 1, output ?? "/dev/null", flags, 0o600)
    if let errors, errors == output {
      unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
    } else {
      unsafe posix_spawn_file_actions_addopen(&actions, 2, errors ?? "/dev/null", flags, 0o600)
    }
    for descriptor in 3..<openDescriptorsEnd() {
      // One that is not open is no error here.
      unsafe posix_spawn_file_actions_addclose(&actions, descriptor)
    }

    var none = sigset_t()
    var all = sigset_t()
    unsafe sigemptyset(&none)
    unsafe sigfillset(&all)
    unsafe posix_spawnattr_setsigmask(&attributes, &none)
    unsafe posix_spawnattr_setsigdefault(&attributes, &all)
    let newSession: Int32 = 0x80  // POSIX_SPAWN_SETSID, which glibc shows only to GNU sources
    unsafe posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | newSession))

    var child: pid_t = 0
    let variables = environment ?? inheritedEnvironment()
    var argumentPointers = unsafe arguments.map { unsafe strdup($0) }
    var variablePointers = unsafe variables.map { unsafe strdup($0) }
    unsafe argumentPointers.append(nil)
    unsafe variablePointers.append(nil)
    defer {
      // By index: swift-format takes the name out of `for unsafe pointer in …`.
      for index in unsafe argumentPointers.indices { unsafe free(argumentPointers[index]) }
      for index in unsafe variablePointers.indices { unsafe free(variablePointers[index]) }
    }
    let code = unsafe posix_spawn(&child, arguments[0], &actions, &attributes, argumentPointers, variablePointers)
    guard code == 0 else { throw TestFailure("cannot start \(arguments[0]): \(text(of: code))") }
    return child
  }
}
