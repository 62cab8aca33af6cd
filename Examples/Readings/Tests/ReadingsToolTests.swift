import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The real executable, as a user runs it.
@Suite("Readings in a terminal", .bounded(.seconds(180)))
struct ReadingsToolTests {
    @Test func `three photos are read, the fourth is refused, and the guest registers`()
        async throws
    {
        try await Self.withServer { server in
            let phone = server.device("phone")
            let read = ["read", "--photo", server.photo.path, "--origin", "turkish", "--kind"]
            for (kind, left) in [("palm", 2), ("face", 1), ("coffee", 0)] {
                let read = try await phone.run(read + [kind])
                #expect(read.status == 0, "\(read.errors)")
                #expect(read.output.contains("I have looked at 1 attached"))
                #expect(read.output.contains("\(left) of 3 readings left"))
            }
            let refused = try await phone.run(read + ["palm"])
            #expect(refused.status == 1, "\(refused.errors)")
            #expect(refused.output.hasPrefix("All 3 readings of today are used.\n"))
            #expect(refused.output.contains("with premium"))
            let unknown = try await phone.run(read + ["foot"])
            #expect(unknown.status == 64 && unknown.errors.contains("foot"))

            let credentials = ["--email", "defne@example.org", "--password", "long enough"]
            let sent = try await phone.run(["upgrade"] + credentials)
            #expect(sent.status == 0, "\(sent.errors)")
            let verified = try await phone.run(["verify", server.code()])
            #expect(verified.output.hasPrefix("registered as defne@example.org"))

            let tablet = server.device("tablet")
            let signedIn = try await tablet.run(["sign-in", "--yes"] + credentials)
            #expect(signedIn.status == 0, "\(signedIn.errors)")
            #expect(signedIn.output.hasSuffix("3 readings\n"))
            #expect(try await tablet.run(["quota"]).output.hasPrefix("0 of 3 readings left"))
            let account = try await tablet.run(["account", "--language", "tr", "--notifications"])
            #expect(account.output.hasPrefix("registered "))
            #expect(
                account.output.contains(", tr\n") && account.output.contains("notifications on")
            )
        }
    }

    @Test func `an app killed during a reading finds it at its next start and pays once`()
        async throws
    {
        try await Self.withServer { server in
            let phone = server.device("phone")
            let read = [
                "read", "--photo", server.photo.path, "--kind", "palm", "--origin", "greek",
            ]
            let seen = try await phone.with(read) { tool in
                try await tool.output.wait(for: "a first word") { !$0.data.isEmpty }
                tool.signal(SIGKILL)
                return try await tool.ended()
            }
            #expect(seen.status == -SIGKILL && !seen.output.isEmpty)
            let history = try await phone.run(["history"])
            let text = try #require(history.output.split(separator: "\n").last)
            #expect(text.contains("I have looked at 1 attached"), "\(history)")
            #expect(try await phone.run(["quota"]).output.hasPrefix("2 of 3 readings left"))
        }
    }

    @Test func `an app killed while its account is created has one account`() async throws {
        try await Self.withServer { server in
            let phone = server.device("phone")
            let identity = DeviceIdentityFile(in: phone.folder).url.path
            let ended = try await phone.with(["account"]) { tool in
                // The identity is on the disk before the server learns of it.
                try await eventually("the identity") {
                    FileManager.default.fileExists(atPath: identity)
                }
                tool.signal(SIGKILL)
                return try await tool.ended()
            }
            #expect(ended.status == -SIGKILL || ended.status == 0)
            let file = try Data(contentsOf: URL(filePath: identity))
            let first = try await phone.run(["account"])
            #expect(first.output.hasPrefix("guest 0"), "\(first)")
            #expect(try await phone.run(["account"]).output == first.output)
            #expect(try Data(contentsOf: URL(filePath: identity)) == file)
        }
    }

    /// A server that runs as its own process.
    private struct Server: Sendable {
        let root: URL
        let address: String

        var photo: URL { root.appending(path: "photo.jpg") }

        /// Waits for the only e-mail, and returns its code.
        func code() async throws -> String {
            try await MailFolder(of: root.appending(path: "server")).code()
        }

        func device(_ name: String) -> ToolDevice {
            ToolDevice("Readings", server: address, folder: root.appending(path: name))
        }
    }

    private static func withServer(
        _ body: @escaping @Sendable (Server) async throws -> Void
    ) async throws {
        try await TemporaryFolder.with { root in
            let data = root.appending(path: "server")
            try await ToolDevice.serving("Readings", data) { address, _ in
                let server = Server(root: root, address: address)
                try Data(SampleFile.jpeg.bytes()).write(to: server.photo)
                try await body(server)
            }
        }
    }
}
