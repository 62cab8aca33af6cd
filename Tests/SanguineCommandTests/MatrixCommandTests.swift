import ArgumentParser
import Foundation
import Sanguine
import SanguineServer
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("sanguine matrix", .bounded)
struct MatrixCommandTests {
    @Test func `the matrix of the default settings has functions, collections and queries`() {
        let matrix = MatrixCommand.matrix(of: ServerSettings())

        #expect(
            matrix.rows.map(\.name)
                == [
                    "$account", "$balance", "$config", "$messages", "$quotas", "$threads", "ask",
                    "daily", "echo", "notes", "posts",
                ]
        )
        #expect(matrix.rows.allSatisfy { $0.standing == .declared })
        #expect(matrix["daily"]?.server.cached == "until midnight")
        #expect(
            ["$account", "$balance", "$quotas"].map { matrix[$0]?.client.fresh }
                == ["1 h", "2 min", "1 min"]
        )
    }

    @Test func `a client that declares the functions prints the same table`() throws {
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://127.0.0.1:1")
        )
        configuration.functions = [Ask.self, Echo.self]
        let client = try SanguineClient(configuration)
        defer { client.close() }
        var settings = ServerSettings()
        settings.functions = [.ask, .echo]

        #expect(client.matrix() == MatrixCommand.matrix(of: settings))
        #expect("\(client.matrix())" == "\(MatrixCommand.matrix(of: settings))")
    }

    @Test func `the command has a settings file and two other forms of output`() throws {
        let plain = try SanguineTool.parseAsRoot(["matrix", "--config", "a.yaml"])
        #expect((plain as? MatrixCommand)?.options.config == "a.yaml")
        let json = try SanguineTool.parseAsRoot(["matrix", "--json"])
        #expect((json as? MatrixCommand)?.json == true)
        let markdown = try SanguineTool.parseAsRoot(["matrix", "--markdown"])
        #expect((markdown as? MatrixCommand)?.markdown == true)
    }

    @Test func `two forms of output at once are wrong usage`() throws {
        let error = try #require(throws: (any Error).self) {
            try SanguineTool.parseAsRoot(["matrix", "--markdown", "--json"])
        }
        #expect(SanguineTool.exitCode(for: error) == .validationFailure)
    }
}
