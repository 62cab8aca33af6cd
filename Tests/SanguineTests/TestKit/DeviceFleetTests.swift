import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// One user's devices, a faulty network, and crashes: after recovery all devices agree.
@Suite("Fleet of devices", .bounded(.seconds(300)))
struct DeviceFleetTests {
    @Test(arguments: 1...8)
    func `nothing is lost or applied twice, and all devices agree`(seed: UInt64) async throws {
        var fleet = Fleet(seed: seed)
        for device in fleet.devices { try device.launch() }
        for _ in 0..<60 { try await fleet.step() }
        try await fleet.settle()
        try fleet.expectAgreement()
    }
}

/// The devices and the operations performed on them.
private struct Fleet: CustomStringConvertible {
    let authority: InMemoryAuthority
    let networks: [FaultyNetwork]
    let devices: [TestDevice]
    private let clock = ManualWallClock()
    private let delay = ManualClock()
    private let seed: UInt64
    private var random: SplitMix64
    private var performed: [Identifier] = []
    private var counts: [String: Int64] = [:]
    private var others: Int64 = 0

    init(seed: UInt64) {
        self.seed = seed
        random = SplitMix64(seed: seed)
        let authority = InMemoryAuthority(schema: .counters, accounts: .one, clock: clock)
        var faults = FaultyNetwork.Faults.rough
        faults.timeToNotice = seed.isMultiple(of: 2) ? .seconds(3) : .zero
        let (clock, delay) = (clock, delay)
        networks = (0..<(2 + seed % 2)).map { number in
            FaultyNetwork(authority, seed: seed &+ number << 32, clock: delay, faults: faults)
        }
        devices = networks.map { network in
            TestDevice(network: network, clock: clock, delay: delay, seed: network.seed) {
                $0.schema = .counters
                $0.logger = .silent
            }
        }
        self.authority = authority
    }

    /// The description used in failure messages.
    var description: String {
        "seed \(seed)\n" + networks.map(\.description).joined(separator: "\n")
    }

    mutating func step() async throws {
        let index = Int.random(in: devices.indices, using: &random)
        let (device, network) = (devices[index], networks[index])
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<8: try tap(device)
        case 8: try device.launch()
        case 9: network.isPartitioned ? network.heal() : network.partition()
        case 10: device.connectivity.disconnect()
        case 11: device.connectivity.connect()
        case 12: authority.expireTokens()
        case 13: authority.forgetDeletions()
        case 14: changeElsewhere()
        case 15: clock.advance(by: .seconds(Int.random(in: -30...300, using: &random)))
        default: delay.advance(by: .milliseconds(Int.random(in: 1...4_000, using: &random)))
        }
        for _ in 0..<Int.random(in: 0...200, using: &random) {
            await Task.yield()  // tidy: allow busy-wait: how far the others get is up to the seed.
        }
    }

    private mutating func tap(_ device: TestDevice) throws {
        let name = "c\(Int.random(in: 0..<4, using: &random))"
        let amount = Int64.random(in: 1...9, using: &random)
        let line = Bool.random(using: &random) ? "main" : "other"
        let client = try #require(device.client)
        performed.append(try client.add(name, by: amount, line: line).id)
        counts[name, default: 0] += amount
    }

    /// Changes a record as a device outside the fleet would.
    private mutating func changeElsewhere() {
        others += 1
        authority.set("other-\(others)", to: others)
        authority.delete(Counter.self, .of("other-\(others - 2)"))
    }

    /// Heals the network and synchronizes every device.
    func settle() async throws {
        for network in networks {
            network.heal()
            network.faults = .none
        }
        for device in devices { device.connectivity.connect() }
        // By the second round all devices have sent their operations.
        for device in devices + devices {
            let client = try #require(device.client)
            try await delay.advancing {
                var failures = 0
                // Requests that were in flight may still fail.
                while failures < 20, (try? await client.synchronize()) == nil { failures += 1 }
                try await client.synchronize()
            }
        }
    }

    func expectAgreement() throws {
        #expect(authority.done.count == performed.count, "\(self)")
        #expect(Set(authority.done) == Set(performed), "\(self)")
        for (name, count) in counts { #expect(authority.count(name) == count, "\(self)") }
        let truth = authority.records(Counter.self)
        for device in devices {
            let client = try #require(device.client)
            #expect(client.records(Counter.self) == truth, "\(self)")
            #expect(client.outbox.pending.isEmpty && client.outbox.refused.isEmpty, "\(self)")
        }
    }
}
