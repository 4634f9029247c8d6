/// Ends the children of this process, and removes its folders, however this process ends.
///
/// A small shell reads one end of a socket pair whose other end only this process has. When the stream ends (exit,
/// crash, SIGKILL), the shell kills the process groups and removes the folders that it knows of.
import Glibc
import Synchronization

package final class Watchdog: Sendable {
  package static let shared = Watchdog()

  /// Our end; -1 if the shell could not be started.
  private let descriptor: Mutex<Int32>

  private static let script = """
    trap '' HUP INT TERM
    groups=' '; folders=' '
    while read -r verb value; do
      case $verb in
        +group) groups="$groups$value " ;;
        -group) case "$groups" in *" $value "*) groups="${groups%% $value *} ${groups#* $value }" ;; esac ;;
        +folder) folders="$folders$value " ;;
        -folder) case "$folders" in *" $value "*) folders="${folders%% $value *} ${folders#* $value }" ;; esac ;;
      esac
    done
    for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
    for folder in $folders; do rm -rf -- "$folder" 2>/dev/null || { sleep 1; rm -rf -- "$folder"; }; done
    """

  private init() {
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard unsafe socketpair(AF_UNIX, type, 0, &ends) == 0 else {
      descriptor = Mutex(-1)
      return
    }
    let shell = try? ChildProcess.spawn(
      ["/bin/sh", "-c", Self.script], environment: ["PATH=/usr/bin:/bin"], input: ends[0], output: nil, errors: nil)
    close(ends[0])
    descriptor = Mutex(shell == nil ? -1 : ends[1])
  }

  func remember(group: pid_t) { tell("+group \(group)\n") }
  func forget(group: pid_t) { tell("-group \(group)\n") }
  func remember(folder: String) { tell(folder: folder, "+folder") }
  func forget(folder: String) { tell(folder: folder, "-folder") }

  private func tell(folder: String, _ verb: String) {
    // The shell splits its list at spaces, and must never remove a part of a name.
    guard !folder.contains(where: \.isWhitespace), !folder.contains("*"), !folder.contains("?") else { return }
    tell("\(verb) \(folder)\n")
  }

  private func tell(_ line: String) {
    let bytes = Array(line.utf8)
    descriptor.withLock { descriptor in
      guard descriptor >= 0 else { return }
      // A lost or slow watchdog must neither fail a test nor block it.
      _ = unsafe send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }
  }
}
