import ArgumentParser
import PushOperations
import PushSettings

struct UnrevokeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unrevoke",
    abstract: "Makes the worker on this machine use a revoked credential again.",
    discussion: """
      Ends what `herald revoke` began, with the same key, under this name alone; it names the others that have the key. Another key in the configuration, or in the key's file, ends it by itself. Run it \
      beside each worker.
      """)

  @OptionGroup var common: CommonOptions

  @Argument(help: "The credential's name in the configuration.")
  var credential: String

  func run() throws {
    let configuration = try common.load()
    do {
      print(try AdminClient(configuration.admin).unrevoke(credential: credential))
    } catch {
      throw Exit.failure("\(error)")
    }
  }
}
