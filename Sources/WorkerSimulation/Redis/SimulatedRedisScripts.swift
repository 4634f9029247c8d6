/// All of Herald's scripts, each with the SHA-1 of the text that its model was written from.
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
      "token look", digest: "ce9131953b38b68744a4e799aac049df3ab53f6d", model: SimulatedTokenModel.look),
    SimulatedRedisScript(
      "token store", digest: "5e4d0a1e8b3e2022b97a48be5fdbfc5e28982299", model: SimulatedTokenModel.store),
    SimulatedRedisScript(
      "token keep", digest: "d1b4fbb489c72fbbaef9db177ca4d29ab92f781d", model: SimulatedTokenModel.keep),
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
      "channel take", digest: "6b12b3a0719320bc7b5165a0999416e0078e2da6", model: SimulatedChannelModel.take),
    SimulatedRedisScript(
      "channel use", digest: "25eb43260bc3cec0ad873dadecfd1fce0acb0786", model: SimulatedChannelModel.use),
    SimulatedRedisScript(
      "registry find", digest: "fc83daccf097b5d85b4d1bb2e87adb106625a7b7", model: SimulatedRegistryModel.find),
    SimulatedRedisScript(
      "registry commit", digest: "9496dd8ed13571956e7e011f1b6a36907da594d3", model: SimulatedRegistryCommit.run),
    SimulatedRedisScript(
      "registry records", digest: "0019403b0cc2fde955aa9c2cae23388322203a68", model: SimulatedRegistryModel.records),
    SimulatedRedisScript(
      "registry words", digest: "d11e0b1b56f72803dfc39f110cb330fd26578b41", model: SimulatedRegistryModel.words),
    SimulatedRedisScript(
      "registry mark", digest: "73cf0534b95fd1f8c52f29be6045bc077dc4739a", model: SimulatedRegistryModel.mark),
    SimulatedRedisScript(
      "registry count", digest: "70d657eb674f618f71e0f3f6bb0a83b56b2ee0e0", model: SimulatedRegistryModel.count),
    SimulatedRedisScript(
      "activity read", digest: "465181e47167042cfcf5c057c9d9fe5774ce9d04", model: SimulatedActivityModel.read),
    SimulatedRedisScript(
      "activity commit", digest: "42e57dd97f90f8c55c0816f4719cb06d8f6fa03b", model: SimulatedActivityModel.commit),
    SimulatedRedisScript(
      "activity places", digest: "477a2cee00427fe78fa3a9b606692b7f7fd9e7f0", model: SimulatedActivityModel.places),
    SimulatedRedisScript(
      "expansion open", digest: "90d9c26531b327dbc9b617e024bfecf4c47200e8", model: SimulatedExpansionModel.open),
    SimulatedRedisScript(
      "expansion fix", digest: "ae0132e185d7a7d468c7671559ebb171451ba95c", model: SimulatedExpansionModel.fix),
    SimulatedRedisScript(
      "expansion published", digest: "ca23b5672334beaa9d138384e391e67c65de18fa",
      model: SimulatedExpansionModel.published),
    SimulatedRedisScript(
      "expansion withdraw", digest: "5882fcd1b1a4ed5db9b67da57986fd612ec0097c", model: SimulatedExpansionModel.withdraw),
    SimulatedRedisScript(
      "expansion settle", digest: "d4ce3f2089400d8e45d6caf7efa100629ee25c7b", model: SimulatedExpansionModel.settle),
    SimulatedRedisScript(
      "expansion command", digest: "f9a0f7fdf09553e61ddba69a5c9dd7e2c6d2ee36", model: SimulatedExpansionModel.command),
    SimulatedRedisScript(
      "expansion broadcast", digest: "c896248a7bf390d189800ade8ba0a3ee185f939b",
      model: SimulatedExpansionModel.repeatBroadcast),
    SimulatedRedisScript(
      "expansion early", digest: "505d50a4e897014edffed70d8d918f05f27e3d27", model: SimulatedExpansionModel.endEarly),
    SimulatedRedisScript(
      "expansion finish", digest: "2f01799dbc823b4cd02dccabac7785adc5fd2933", model: SimulatedExpansionModel.finish),
  ]
}
