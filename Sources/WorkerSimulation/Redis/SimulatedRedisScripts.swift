/// All scripts of Herald, each with the SHA-1 of the text that its model was written from.
extension SimulatedRedisScript {
  package static let all = [
    SimulatedRedisScript(
      "admit", digest: "3316aa0c450bf18162b884467d876d7b1358733b", model: SimulatedAdmissionModel.run),
    SimulatedRedisScript("tell", digest: "72b798ced1af7153010698251aa61ed8703964a7", model: SimulatedDeviceModel.tell),
    SimulatedRedisScript(
      "tighten", digest: "ad7656ef148f5d95a56bf7591f7acaad4abbaa64", model: SimulatedDeviceModel.tighten),
    SimulatedRedisScript("mark", digest: "bbe85be4e65248ee64e1febf4c766f26e8aac28b", model: SimulatedDeviceModel.mark),
    SimulatedRedisScript("show", digest: "b166efac8a2c58043928aae7b4c16363410b3add", model: SimulatedDeviceModel.show),
    SimulatedRedisScript(
      "forget", digest: "092aa1752aaefd568c9a9bccd91516b18c6e9365", model: SimulatedDeviceModel.forget),
    SimulatedRedisScript(
      "token look", digest: "89187461eaeda3d2b78150050c15b77b6e4b27af", model: SimulatedTokenModel.look),
    SimulatedRedisScript(
      "token store", digest: "4b456e317724427ea5da51a02cf3831eb84b330e", model: SimulatedTokenModel.store),
    SimulatedRedisScript(
      "token keep", digest: "f45e60e38eb7817e3e019fee6b6d736f8aed995c", model: SimulatedTokenModel.keep),
    SimulatedRedisScript(
      "token release", digest: "7f8f6677b8f2b4b65b9b9905151ced126e6b7e49", model: SimulatedTokenModel.release),
    SimulatedRedisScript(
      "channel look", digest: "81e8ba0e28191477b9ad2177d5e6c6b49e6763b7", model: SimulatedChannelModel.look),
    SimulatedRedisScript(
      "channel store", digest: "cf5a54d03199c5b323f7ceba78208782ed580f87", model: SimulatedChannelModel.store),
    SimulatedRedisScript(
      "channel release", digest: "6376ff2c11489c2cf661b2a2fafe87f4e834256b", model: SimulatedChannelModel.release),
    SimulatedRedisScript(
      "channel learn", digest: "6239e9c437933ff9b3693cbfc9fa79a91e7ef30c", model: SimulatedChannelModel.learn),
    SimulatedRedisScript(
      "channel policy", digest: "1fcafafb04d6a67e820d878e45b0c4aa5c802bb3", model: SimulatedChannelModel.policy),
    SimulatedRedisScript(
      "channel forget", digest: "cbeb59e775bc6ec6cf43990dd03aa216a033e821", model: SimulatedChannelModel.forget),
    SimulatedRedisScript(
      "channel claim", digest: "a37e1c4ace6ef66a3095c8c0747edc1c60daa936", model: SimulatedChannelModel.claim),
    SimulatedRedisScript(
      "channel take", digest: "49ac0def6121d03955236e481b8cc73ee0c240d5", model: SimulatedChannelModel.take),
    SimulatedRedisScript(
      "channel use", digest: "25eb43260bc3cec0ad873dadecfd1fce0acb0786", model: SimulatedChannelModel.use),
  ]
}
