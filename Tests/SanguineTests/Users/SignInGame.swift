import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// Users of an app's own backend who share a device, played with the real client and real files.
///
/// They sign in and out, write and read, and erase the device; the network delays and loses
/// messages, and the process dies. After each step the game checks everything that the client
/// shows, that is on disk, and that the backend has received. Used by one task.
final class SignInGame {
    /// A violation that the game found.
    struct Leak: Error, Equatable, CustomStringConvertible {
        let seed: UInt64
        let trace: [String]
        let detail: String

        var description: String { "seed \(seed): \(detail)\n\(trace.joined(separator: "\n"))" }
    }

    private static let names = ["ada", "bob", "cyd"]

    let seed: UInt64
    private let people: PeopleBackend
    private var random: SplitMix64
    private var trace: [String] = []
    private var writes = 0
    /// The words that the device may still hold, by person.
    private var kept: [String: Set<String>] = [:]
    /// Everything that anyone has performed.
    private var performed: Set<String> = []
    private var tasks: [Task<Void, Never>] = []
    private(set) var tally: [String: Int] = [:]

    /// - Parameters:
    ///   - seed: The seed that determines the turns.
    ///   - fault: A fault for the game to find. Default: none.
    init(seed: UInt64, fault: PlantedFault? = nil) {
        self.seed = seed
        random = SplitMix64(seed: seed)
        people = PeopleBackend(seed: seed, fault: fault)
    }

    private var device: TestDevice { people.device }

    private func client() throws -> SanguineClient { try device.client ?? device.launch() }

    /// Plays that many steps, then lets everyone return.
    ///
    /// - Returns: The violation found, or `nil`.
    func leak(steps: Int) async -> Leak? {
        defer { device.quit() }
        do {
            for _ in 0..<steps {
                try await step(client())
                try check(client())
            }
            try await rest()
            return nil
        } catch let leak as Leak {
            return leak
        } catch {
            return fail("the game itself failed: \(error)")
        }
    }

    private func fail(_ detail: String) -> Leak { Leak(seed: seed, trace: trace, detail: detail) }

    private func note(_ turn: String, _ client: SanguineClient) {
        tally[turn, default: 0] += 1
        trace.append("\(trace.count): \(turn), by \(client.userID ?? "no user")")
    }

    // MARK: - Steps

    private func step(_ client: SanguineClient) async throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<18: try await signIn(client)
        case 18..<28: await signOut(client)
        case 28..<31: try await erase(client)
        case 31..<58: try perform(client)
        case 58..<68: read(client)
        case 68..<74: set(client)
        case 74..<82: try die(client)
        case 82..<92: disturb()
        default: device.delay.advance(by: .seconds(Int.random(in: 1...90, using: &random)))
        }
        // How far other tasks get during this time is part of the game; this waits for nothing.
        let time = Duration.microseconds(Int.random(in: 0...1_000, using: &random))
        try? await Task.sleep(for: time)  // tidy: allow sleeping-test: a turn of the game.
    }

    private func signIn(_ client: SanguineClient) async throws {
        let person = Self.names.randomElement(using: &random) ?? "ada"
        note("sign-in of \(person)", client)
        if Bool.random(using: &random) {
            if client.userID != person { await people.signOut(of: client) }
            try people.signIn(person, to: client)
        } else {
            // Without a sign-out: the token is removed before and set afterwards.
            people.token = nil
            try client.signIn(as: person)
            people.token = person
            client.outbox.resume()
        }
        guard client.userID == person else { throw fail("\(person) is not signed in") }
        try checkFiles(client)
    }

    private func signOut(_ client: SanguineClient) async {
        let keepsNothing = Int.random(in: 0..<3, using: &random) == 0
        note(keepsNothing ? "sign-out that keeps nothing" : "sign-out", client)
        if keepsNothing, let person = client.userID { kept[person] = [] }
        await people.signOut(of: client, keeping: keepsNothing ? .nothing : .waitingOperations())
    }

    private func erase(_ client: SanguineClient) async throws {
        note("erasing", client)
        people.token = nil
        try await client.eraseLocalData()
        kept = [:]
        for name in Self.names where try !device.files(with: name).isEmpty {
            throw fail("data of \(name) is in \(try device.files(with: name))")
        }
    }

    private func perform(_ client: SanguineClient) throws {
        guard let person = client.userID else { return }
        note("operation", client)
        writes += 1
        let text = "\(person)-deed-\(writes)."
        try client.perform(Say(text: text))
        performed.insert(text)
        kept[person, default: []].insert(text)
    }

    private func read(_ client: SanguineClient) {
        guard client.userID != nil else { return }
        note("read", client)
        tasks.append(Task { _ = try? await client.refresh(.said) })
    }

    private func set(_ client: SanguineClient) {
        guard let person = client.userID else { return }
        note("value that is set", client)
        client.set(Words(words: ["\(person)-set"]), for: .said)
    }

    private func die(_ client: SanguineClient) throws {
        let person = client.userID
        note("death", client)
        try device.kill()
        let next = try device.launch()
        guard next.userID == person else {
            throw fail("after a restart the user is \(next.userID ?? "nil")")
        }
    }

    private func disturb() {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: people.network.hold()
        case 1: people.network.script(.fail(.interrupted("lost")))
        case 2: device.connectivity.disconnect()
        case 3: device.connectivity.connect()
        default: people.network.release()
        }
    }

    // MARK: - Checks

    private func check(_ client: SanguineClient) throws {
        let shown =
            (client.cached(.said)?.words ?? []) + (client.snapshot(of: .said).value?.words ?? [])
        let person = client.userID
        for text in shown where !text.hasPrefix("\(person ?? "nobody")-") {
            throw fail("\(person ?? "a signed-out user") is shown '\(text)'")
        }
        if person == nil, !client.outbox.pending.isEmpty {
            throw fail("operations wait without a user")
        }
        try checkSent()
    }

    private func checkSent() throws {
        for deed in people.deeds where !deed.text.hasPrefix("\(deed.person)-") {
            throw fail("\(deed.person) has sent '\(deed.text)'")
        }
    }

    /// Checks that the disk holds only queued operations of users who are not signed in.
    private func checkFiles(_ client: SanguineClient) throws {
        for name in Self.names where name != client.userID {
            for text in ["\(name)-hello", "\(name)-set"] where try !device.files(with: text).isEmpty
            {
                throw fail("'\(text)' is in \(try device.files(with: text))")
            }
            let files = try device.files(with: "\(name)-deed")
            guard files.allSatisfy({ $0.hasSuffix(OutboxFile.name) }) else {
                throw fail("operations of \(name) are in \(files)")
            }
            if kept[name, default: []].isEmpty, !files.isEmpty {
                throw fail("operations of \(name) that were to be discarded are in \(files)")
            }
        }
    }

    /// Lets everyone return: kept operations are applied once, others at most once.
    private func rest() async throws {
        people.network.release()
        device.connectivity.connect()
        let client = try client()
        for name in Self.names {
            await people.signOut(of: client)
            try people.signIn(name, to: client)
            try await device.delay.advancing {
                try await eventually("everything of \(name) is sent") {
                    (try? await client.synchronize()) != nil
                }
            }
            try check(client)
        }
        let texts = people.deeds.map(\.text)
        for text in performed {
            let count = texts.count { $0 == text }
            guard count <= 1 else { throw fail("'\(text)' was applied \(count) times") }
            guard count == 1 || !kept.values.contains(where: { $0.contains(text) }) else {
                throw fail("'\(text)' was lost")
            }
        }
    }
}
