import Foundation
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Readings with a network that loses, duplicates, delays and breaks off.
@Suite("Readings on a bad network", .bounded(.seconds(120)))
struct ReadingsNetworkTests {
    @Test(arguments: [UInt64(1), 2, 3])
    func `readings over a bad network use one unit each and are in the history once`(
        seed: UInt64
    ) async throws {
        try await ReadingsWorld.with { world in
            let delay = ManualClock()
            let network = FaultyNetwork(URLSessionTransport.patient, seed: seed, clock: delay)
            let client = try world.client { ($0.transport, $0.delay) = (network, delay) }
            let screen = await world.screen(client)
            _ = try await delay.advancing { try await client.value(of: .quotas) }
            network.faults = .rough
            for kind in ReadingKind.allCases {
                try await delay.advancing(within: .seconds(30)) {
                    // Over this network a reading may fail, with an error of the transport.
                    do {
                        _ = try await screen.read(world.photo, kind, .turkish)
                    } catch {
                        #expect(error is SanguineError)
                    }
                    try await screen.settled()
                }
            }
            network.faults = .none
            // As at the next start: each reading is found, or was never made.
            try await delay.advancing(within: .seconds(30)) {
                try await eventually("an end of all readings, \(network)", within: .seconds(30)) {
                    await screen.resume()
                    try await screen.settled()
                    let isWhole = await screen.history.allSatisfy { $0.text?.isEmpty == false }
                    let isSent = await screen.chosen == nil
                    return isWhole && isSent
                }
                // The first ones may join an exchange that began with faults.
                try await eventually("a pull without faults, \(network)") {
                    do {
                        try await client.synchronize()
                        try await screen.refresh()
                        return true
                    } catch {
                        return false
                    }
                }
            }
            let count = await screen.history.count
            #expect(count > 0 && count <= 3, "\(network)")
            #expect(await screen.quota?.used == Int64(count), "\(network)")
            client.close()
        }
    }
}
