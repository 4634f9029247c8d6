import ArgumentParser
import PushOperations
import PushSettings

struct RevokeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "revoke",
    abstract: "Makes the worker on this machine stop using a credential at once.",
    discussion: """
      For a key or certificate in wrong hands: the worker that runs with this configuration closes the credential's \
      connections, in every lane and to channel management, and its jobs wait in the retry queues. So it does for every \
      credential with the same key, and names each. What was on the connections may or may not have been sent. It lasts until a reload finds another key under this name, or until \
      `herald unrevoke`, or until the worker ends: change the configuration too, and run this beside each worker. With \
      admin.token_file it shows the token; without, it must run as the worker's user or root.
      """)

  @OptionGroup var common: CommonOptions

  @Argument(help: "The credential's name in the configuration.")
  var credential: String

  func run() throws {
    let configuration = try common.load()
    do {
      print(try AdminClient(configuration.admin).revoke(credential: credential))
    } catch {
      throw Exit.failure("\(error)")
    }
  }
}
