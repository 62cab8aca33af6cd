import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Test device", .bounded)
struct TestDeviceTests {
    private let authority = InMemoryAuthority(schema: .counters)

    private func device(_ network: any HTTPTransport) -> TestDevice {
        TestDevice(network: network) {
            $0.schema = .counters
            $0.logger = .silent
        }
    }

    private func scripted() -> ScriptedTransport {
        ScriptedTransport { [authority] in .respond(await authority.answer($0)) }
    }

    @Test func `operations performed before a kill are kept and sent`() async throws {
        let device = device(authority)
        device.connectivity.disconnect()
        let first = try device.launch()
        let ids = try (0..<5).map { _ in try first.add("a").id }
        try device.kill()
        #expect(device.client == nil)
        let second = try device.launch()
        #expect(second.count("a") == 5 && second.outbox.pending.map(\.id) == ids)
        device.connectivity.connect()
        try await second.synchronize()
        #expect(authority.done == ids && device.launches == 2)
    }

    @Test func `a dead process sends nothing to the network`() async throws {
        let network = scripted()
        let device = device(network)
        let first = try device.launch()
        try await first.synchronize()
        network.hold()
        let receipt = try first.add("a")
        try await network.waitForHeld(1)
        let before = network.requests.count
        try device.kill()
        try await network.waitForCancelled(1)
        await #expect(throws: SanguineError.closed) { try await receipt.outcome }
        let refusal = #expect(throws: SanguineError.self) { try first.add("b") }
        #expect(refusal == .closed)
        network.release()
        #expect(network.requests.count == before)
        // It was applied and its answer lost; it is resent and applied once.
        let second = try device.launch()
        try await second.synchronize()
        #expect(authority.done == [receipt.id] && second.count("a") == 1)
        #expect(network.requests.count { $0.isPush } == 2)
    }

    @Test func `a dead process writes nothing that the next one reads`() async throws {
        let device = device(authority)
        device.connectivity.disconnect()
        let first = try device.launch()
        try first.add("a")
        let folder = first.configuration.folder
        try device.kill()
        let outbox = OutboxFile(try folder.map { try UserFolders($0).current() })
        let data = try JSONEncoder().encode(Count(id: .of("a")))
        let id = Identifier(at: device.clock.now())
        let row = OutboxFile.Row(id: id, lane: "main", name: Count.name, arguments: data)
        _ = try outbox.insert(row, at: device.clock.now())
        outbox.close()
        let second = try device.launch()
        #expect(second.count("a") == 1 && second.configuration.folder != folder)
    }

    @Test func `a kill during operations loses none that was accepted`() async throws {
        let device = device(authority)
        device.connectivity.disconnect()
        let first = try device.launch()
        let taken = WatchedState<Int64>(0)
        let tapping = Task {
            for _ in 0..<100 where (try? first.add("a")) != nil { taken.withLock { $0 += 1 } }
        }
        try await taken.wait(for: "20 operations") { $0 > 20 }
        let least = taken.value
        try device.kill()
        let most = taken.value
        try await tapping.finished()
        let second = try device.launch()
        let count = try #require(second.count("a"))
        #expect(least <= count && count <= most + 1)
        #expect(second.storeReport.failure == nil)
    }

    @Test func `a device keeps its identity`() async throws {
        let device = device(authority)
        try await device.launch().synchronize()
        let account = device.client?.session.account
        for _ in 0..<3 {
            let client = try device.launch()  // Kills the previous one.
            try await client.synchronize()
            #expect(client.session.account == account)
        }
        device.quit()
        #expect(try device.launch().session.account == account)
    }

    @Test func `two devices create different ids, and so do two launches`() throws {
        let devices = (1...2).map { seed in
            TestDevice(network: authority, seed: seed) {
                $0.schema = .counters
                $0.logger = .silent
            }
        }
        for device in devices { device.connectivity.disconnect() }
        var ids: Set<Identifier> = []
        for device in devices + devices { ids.insert(try device.launch().add("a").id) }
        #expect(ids.count == 4)
    }

    @Test func `a device's folders are removed with it and its last client`() async throws {
        var device: TestDevice? = device(authority)
        var client: SanguineClient? = try device?.launch()
        let first = try #require(client?.configuration.folder)
        try client?.add("a")
        try device?.kill()
        let second = try #require(try device?.launch().configuration.folder)
        #expect(FileManager.default.fileExists(atPath: second.path))
        client = nil
        device = nil
        #expect(client == nil && device == nil)
        // Work in progress in them ends first.
        for folder in [first, second] {
            try await eventually("the folder is gone") {
                !FileManager.default.fileExists(atPath: folder.path)
            }
        }
    }
}
