import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Provokes each error of the guide, with the default transport and a server on a socket.
@Suite("Every error of the guide", .bounded)
struct EveryErrorTests {
    typealias Provocation = @Sendable (LoopbackServer) async throws -> SanguineError

    /// Returns the codes and classes of the guide's table under a title.
    private static func codes(after title: String) throws -> [String: ErrorClass] {
        let guide = try #require(EveryError.guide)
        let start = try #require(guide.range(of: title)).upperBound
        let table = guide[start...].split(separator: "\n", omittingEmptySubsequences: false)
            .drop { !$0.hasPrefix("|") }.prefix { $0.hasPrefix("|") }
        var codes: [String: ErrorClass] = [:]
        for row in table {
            guard let cells = row.firstMatch(of: #/^\| `([a-z_]+)` \| `([A-Za-z]+)` \|/#) else {
                continue
            }
            codes[String(cells.1)] = ErrorClass(rawValue: String(cells.2))
        }
        return codes
    }

    // MARK: - Completeness of the tables

    @Test func `the guide has exactly one row for each error case`() throws {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/Sanguine/SanguineError.swift").standardizedFileURL
        let declared = try String(contentsOf: source, encoding: .utf8)
            .matches(of: #/\n    (?:indirect )?case ([A-Za-z]+)/#).map { String($0.1) }
        let rows = try #require(EveryError.guide)
            .matches(of: #/\n\| ``SanguineError/([A-Za-z]+)[^`]*`` \|/#).map { String($0.1) }

        #expect(declared.count > 10)
        #expect(Set(declared) == Set(rows))
    }

    @Test func `the guide has exactly one row for each error class`() throws {
        let rows = try #require(EveryError.guide)
            .matches(of: #/\n\| ``ErrorClass/([A-Za-z]+)`` \|/#).map { String($0.1) }

        #expect(rows.sorted() == ErrorClass.allCases.map(\.rawValue).sorted())
    }

    @Test func `the guide has exactly one row with the class of each problem code`() throws {
        let known = ErrorTable.codes.map { ($0.key.rawValue, $0.value) }

        #expect(
            try Self.codes(after: "## The server's codes")
                == Dictionary(known) { first, _ in first }
        )
    }

    @Test func `the guide's client codes are exactly those that these tests provoke`() throws {
        let rows = try Self.codes(after: "The codes of these errors")

        #expect(Set(rows.keys) == Set(EveryError.all.keys))
    }

    // MARK: - Correctness of the tables

    @Test(arguments: EveryError.all.keys.sorted())
    func `a client error has the code and class that the guide states`(code: String) async throws {
        let server = try LoopbackServer { EveryError.answer($0, $1) }
        defer { server.stop() }
        let provoke = try #require(EveryError.all[code])
        let error = try await provoke(server)

        #expect(error.code == code)
        #expect(try Self.codes(after: "The codes of these errors")[code] == error.errorClass)
        #expect(!error.description.isEmpty)
    }

    @Test func `a decoding error contains the response that could not be decoded`() async throws {
        let server = try LoopbackServer()
        defer { server.stop() }
        let provoke = try #require(EveryError.all["decoding"])
        let error = try await provoke(server)

        #expect(error.response?.status == 200)
        #expect(error.response?.body == Data("hello".utf8))
        #expect(error.response?.header("X-Mood") == "good")
        #expect(SanguineError.timedOut(after: error).response?.status == 200)
    }

    @Test(arguments: ErrorTable.codes.keys.sorted { $0.rawValue < $1.rawValue })
    func `a problem has the code and class that the guide states`(code: ProblemCode) async throws {
        let body = try JSONEncoder().encode(Problem(code, "Why."))
        let server = try LoopbackServer { _, _ in
            LoopbackServer.Reply(
                status: code.meaning.status,
                headers: ["Content-Type: application/problem+json"],
                body: String(decoding: body, as: UTF8.self)
            )
        }
        defer { server.stop() }
        let client = try EveryError.client(server)
        defer { client.close() }
        let error = try await EveryError.error { try await client.value(of: .profile("a")) }

        #expect(error.code == code.rawValue)
        #expect(error.errorClass == ErrorTable.codes[code])
        #expect(error.response?.status == code.meaning.status)
        #expect(error.response?.body == body)
    }

    @Test(arguments: ErrorTable.statuses.keys.sorted())
    func `a status without a body has the class that the guide states`(status: Int) async throws {
        let server = try LoopbackServer { _, _ in LoopbackServer.Reply(status: status) }
        defer { server.stop() }
        let client = try EveryError.client(server)
        defer { client.close() }
        let error = try await EveryError.error { try await client.value(of: .profile("a")) }

        #expect(error.code == "http_\(status)")
        #expect(error.errorClass == ErrorTable.statuses[status])
    }
}
