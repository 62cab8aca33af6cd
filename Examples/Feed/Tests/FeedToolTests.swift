import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The real executable, as a user runs it.
@Suite("Feed in a terminal", .bounded(.seconds(180)))
struct FeedToolTests {
    @Test func `two users fill, scroll, like, reply, follow, search and write`() async throws {
        try await Self.withServer { ana, ben in
            #expect(try await ana.run(["profile", "--name", "Ana", "--draw", "5"]).status == 0)
            let filled = try await ana.run(["fill", "--posts", "45"])
            #expect(filled.output == "45 posts\n", "\(filled.errors)")

            _ = try await ben.run(["profile", "--name", "Ben"])
            let scrolled = try await ben.run(["scroll", "--pages", "3", "--statistics"])
            try Self.check(scrolled.output)
            let line = try #require(scrolled.output.split(separator: "\n").dropFirst().first)
            let post = String(line.prefix { $0 != " " })

            #expect(try await ben.run(["like", post]).output == "1 likes\n")
            let replied = try await ben.run(["replies", post, "Well painted."])
            #expect(replied.output == "Well painted.\n")
            let found = try await ben.run(["search", "an"]).output
            #expect(found.hasSuffix(" Ana\n"))
            let profile = String(found.prefix { $0 != " " })
            #expect(try await ben.run(["follow", profile]).output == "followed\n")
            #expect(try await ben.run(["profile", profile]).output.contains("1 followers"))
            let timeline = try await ben.run(["scroll", "--following", "--pages", "1"]).output
            #expect(timeline.contains("Ana: Picture 45"), "\(timeline)")
            try await Self.write(ana, ben)

            var seen = ""
            // For five seconds the server may give the page that it had before the like.
            try await eventually("the like and the reply in the list", within: .seconds(30)) {
                seen = try await ana.run(["scroll", "--pages", "1"]).output
                return seen.contains("1, 1 replies")
            }
            #expect(seen.contains("Ana: Picture 45"))
            let refused = try await ben.run(["like", "nothing"])
            #expect(refused.status != 0)
        }
    }

    private static func write(_ ana: ToolDevice, _ ben: ToolDevice) async throws {
        let sent = try await ana.run(["message", "@Ben", "Hello"])
        #expect(sent.output == "You: Hello\n", "\(sent.errors)")
        let inbox = try await ben.run(["conversations"]).output
        #expect(inbox.hasSuffix(" from Ana: Hello\n"), "\(inbox)")
        let answered = try await ben.run(["message", "@Ana", "Hi!"])
        #expect(answered.output == "Ana: Hello\nYou: Hi!\n", "\(answered.errors)")
        #expect(try await ana.run(["message", "@Ben"]).output == "You: Hello\nBen: Hi!\n")
        #expect(try await ana.run(["message", "@Nobody", "Hello"]).status != 0)
    }

    private static func check(_ output: String) throws {
        #expect(output.hasPrefix("0 posts are cached\n"))
        #expect(output.contains("Ana: Picture 45 [picture]"))
        #expect(output.contains("— page 2, prefetched") && output.contains("— page 3, prefetched"))
        #expect(output.contains("records:posts: ") && output.contains(" from hosts, "))
    }

    @Test func `posts that were scrolled through are shown without a server`() async throws {
        try await TemporaryFolder.with { root in
            let folder = root.appending(path: "phone")
            let server = WatchedState("")
            try await ToolDevice.serving("Feed", root.appending(path: "server")) { address, _ in
                server.withLock { $0 = address }
                let phone = ToolDevice("Feed", server: address, folder: folder)
                let filled = try await phone.run(["fill", "--posts", "3"])
                #expect(filled.status == 0, "\(filled.errors)")
                let scrolled = try await phone.run(["scroll"])
                #expect(scrolled.output.contains("Painter: Picture 3"))
            }
            let phone = ToolDevice("Feed", server: server.value, folder: folder)
            let shown = try await phone.run(["scroll"])
            #expect(shown.output.hasPrefix("3 posts are cached\n"), "\(shown)")
            #expect(shown.output.contains("Painter: Picture 3"))
            let posted = try await phone.run(["post", "Offline"])
            #expect(posted.status == 0, "\(posted.errors)")
            #expect(try await phone.run(["scroll"]).output.contains("Painter: Offline"))
        }
    }

    private static func withServer(
        _ body: @escaping @Sendable (ToolDevice, ToolDevice) async throws -> Void
    ) async throws {
        try await TemporaryFolder.with { root in
            try await ToolDevice.serving("Feed", root.appending(path: "server")) { address, _ in
                let devices = ["ana", "ben"].map {
                    ToolDevice("Feed", server: address, folder: root.appending(path: $0))
                }
                try await body(devices[0], devices[1])
            }
        }
    }
}
