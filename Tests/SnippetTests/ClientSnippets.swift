import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

struct Translate: FunctionCall {
    struct Input: Codable, Sendable {
        var text: String
        var to: String
    }
    typealias Output = String

    static let name = "translate"
    static let expectedCost: Int64 = 2  // Held until real costs are known.

    var input: Input
}

/// The samples of `README.md` and of the client's guides.
@Suite("Client snippets", .bounded)
struct ClientSnippets {
    // Samples that need a server are compiled but not run; other suites run the same calls.

    func create(at url: URL, show: (Int64?) -> Void) async throws {
        let client = try SanguineClient(.init(server: url))  // one per app; restores its state

        let balance = client.cached(.balance)  // synchronous; nil if never fetched
        for await state in client.updates(of: .balance) {  // cached first, then every change
            show(state.value?.available)
        }
        show(balance?.available)
    }

    func createForBackend(at url: URL, token: @escaping @Sendable () -> String) throws {
        var configuration = SanguineClient.Configuration()
        configuration.baseURL = url
        configuration.baseHeaders = { ["Authorization": "Bearer \(token())"] }
        let client = try SanguineClient(configuration)
        client.close()
    }

    func ask(_ client: SanguineClient, show: (String) -> Void) async throws {
        // The balance shows the hold before this line suspends.
        let answer = try await client.call(Ask(question: "Why is the sky blue?"))
        show(answer)
    }

    func translate(_ client: SanguineClient, show: (String) -> Void) async throws {
        let call = Translate(input: .init(text: "Guten Tag", to: "en"))
        let result = try await client.result(of: call)
        show("\(result.output), for \(result.charged)")
    }

    func face(
        _ client: SanguineClient,
        _ text: String,
        show: (String) -> Void,
        offerTokens: (Int64) -> Void
    ) async {
        do throws(SanguineError) {
            show(try await client.call(Ask(question: text)))
        } catch {
            switch error {
            case .problem(let problem) where problem.code == .insufficientTokens:
                offerTokens(problem.required ?? 0)
            case .transport(.offline):
                show("You are offline. Nothing was charged.")
            case .outcomeUnknown:
                show("The answer was lost. The balance will show whether it was charged.")
            default:
                show(error.description)
            }
        }
    }

    @MainActor
    @Test func `a declared query can be read in several ways`() async throws {
        let network = ScriptedTransport { .json(Profile(name: $0.url.lastPathComponent)) }
        let client = try Self.client(network)

        let profile = try await client.value(of: .profile("42"))  // fresh per its policy, or cached
        let model = client.model(.profile("42"))  // @Observable: value, phase, refresh()

        #expect(profile == Profile(name: "42"))
        #expect(model.value == profile)
        #expect(model.phase == .ready)
        #expect(network.requests.map(\.url.path) == ["/profiles/42"])
    }

    @Test func `a value is fetched again when it is invalidated or refreshed`() async throws {
        let network = ScriptedTransport { _ in .json(Profile(name: "Ada")) }
        let client = try Self.client(network)
        _ = try await client.value(of: .profile("42"))

        client.invalidate(.profile("42"))  // still shown; observers get a new one
        let cached = client.cached(.profile("42"))
        let newest = try await client.refresh(.profile("42"))  // fetched even if it is fresh

        #expect(cached == Profile(name: "Ada"))
        #expect(newest == cached)
        #expect(network.requests.count == 2)
    }

    @Test func `a snapshot contains the age of its value`() async throws {
        let clock = ManualWallClock()
        let client = try Self.client(ScriptedTransport { _ in .json(Profile(name: "Ada")) }, clock)
        _ = try await client.value(of: .profile("42"))
        clock.advance(by: .seconds(90))
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }

        let state = client.snapshot(of: .profile("42"))
        if let profile = state.value, let age = state.age(at: clock.now()) {
            show("\(profile.name), as of \(age.components.seconds) s ago")
        }

        #expect(shown == ["Ada, as of 90 s ago"])
    }

    @Test func `a policy is composed of its parts`() {
        let policy = Policy.fresh(for: .minutes(5)).stored(.onDisk).timeout(.seconds(8))

        #expect(policy.freshness == .duration(.seconds(300)))
        #expect(policy.tier == .onDisk)
        #expect(policy.timeout == .seconds(8))
        #expect(policy.audience == .user)
        #expect(policy.retry == .standard)
    }

    private static func client(
        _ network: ScriptedTransport,
        _ clock: ManualWallClock = ManualWallClock()
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.clock = clock
        return try SanguineClient(configuration)
    }
}
