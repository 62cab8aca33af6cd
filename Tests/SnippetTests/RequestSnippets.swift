import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

struct Author: Codable, Sendable, Equatable {
    var id: String
}

let authors = Batch<String, Author>("author") { request, ids in
    let list = URLQueryItem(name: "ids", value: ids.joined(separator: ","))
    let found: [Author] = try await request.get("authors", query: [list])
    return Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
}

extension ValueQuery where Value == Author {
    static func author(_ id: String) -> Self {
        .batched(by: authors, id, policy: .fresh(for: .minutes(5)))
    }
}

/// The samples of the guide to requests and of the README's section on backends.
@Suite("Request snippets", .bounded)
struct RequestSnippets {
    @Test func `a policy can have a priority`() {
        let policy = Policy.fresh(for: .minutes(5)).priority(.visible)

        #expect(policy.priority == .visible)
    }

    @Test func `a prefetched value is cached or on its way`() async throws {
        let network = ScriptedTransport { .json(Profile(name: $0.url.lastPathComponent)) }
        let client = try Self.client(network)

        client.prefetch(.profile("43"))  // returns at once; a fresh value is not fetched
        let profile = try await client.value(of: .profile("43"), priority: .visible)

        #expect(profile == Profile(name: "43"))
        #expect(network.requests.count == 1)
    }

    @Test func `authors are looked up together`() async throws {
        let network = ScriptedTransport { _ in .json([Author(id: "1"), Author(id: "2")]) }
        let client = try Self.client(network)

        async let first = client.value(of: .author("1"))
        async let second = client.value(of: .author("2"))
        let names = try await [first.id, second.id]

        #expect(names == ["1", "2"])
    }

    @Test func `each lookup can fail with its own error`() async throws {
        let network = ScriptedTransport { request in
            request.url.lastPathComponent == "1" ? .json(Author(id: "1")) : .status(410)
        }
        let client = try Self.client(network)

        let judged = Batch<String, Author>.results("judged-author") { request, ids in
            var results: [String: Result<Author, SanguineError>] = [:]
            for id in ids {
                do throws(SanguineError) {
                    results[id] = .success(try await request.get("authors/\(id)"))
                } catch {
                    results[id] = .failure(error)
                }
            }
            return results
        }

        #expect(try await client.value(of: .batched(by: judged, "1")) == Author(id: "1"))
        let error = await #expect(throws: SanguineError.self) {
            try await client.value(of: .batched(by: judged, "2"))
        }
        #expect(error?.errorClass == .gone)
    }

    func decide(
        _ error: SanguineError,
        signIn: () -> Void,
        close: () -> Void,
        show: (String) -> Void
    ) {
        switch error.errorClass {
        case .needsSignIn: signIn()
        case .gone: close()
        default: show(error.description)
        }
    }

    private static func client(_ network: ScriptedTransport) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        return try SanguineClient(configuration)
    }
}
