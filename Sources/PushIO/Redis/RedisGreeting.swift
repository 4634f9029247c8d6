/// The commands that make a new connection ready: AUTH, ROLE, SELECT, CLIENT SETNAME, SCRIPT LOAD; one write, replies in order.
struct RedisGreeting {
  enum Step: Equatable {
    case authenticate
    /// Whether it is a primary; an ACL may forbid the command.
    case role
    case select
    /// May be refused: some ACLs allow no CLIENT commands, and nothing needs the name.
    case setName
    case loadScript(Int)

    var name: String {
      switch self {
      case .authenticate: "AUTH"
      case .role: "ROLE"
      case .select: "SELECT"
      case .setName: "CLIENT SETNAME"
      case .loadScript: "SCRIPT LOAD"
      }
    }

    var isOptional: Bool { self == .setName }
  }

  let steps: [Step]
  private let commands: [RedisCommand]

  init(configuration: RedisConfiguration, scripts: [String], requiresPrimary: Bool) {
    var steps: [Step] = []
    var commands: [RedisCommand] = []
    if let password = configuration.password {
      steps.append(.authenticate)
      commands.append(RedisCommand(["AUTH"] + (configuration.user.map { [$0] } ?? []) + [password]))
    }
    if requiresPrimary {
      steps.append(.role)
      commands.append(RedisCommand(["ROLE"]))
    }
    if configuration.database != 0 {
      steps.append(.select)
      commands.append(RedisCommand(["SELECT", String(configuration.database)]))
    }
    steps.append(.setName)
    commands.append(RedisCommand(["CLIENT", "SETNAME", configuration.clientName]))
    for (index, script) in scripts.enumerated() {
      steps.append(.loadScript(index))
      commands.append(RedisCommand(["SCRIPT", "LOAD", script]))
    }
    self.steps = steps
    self.commands = commands
  }

  func write(to transport: Transport) {
    for command in commands { transport.outbound.append(command.bytes.span) }
  }
}
