import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The texts of errors: each blames its own cause.
@Suite("Texts of errors", .bounded)
struct ErrorTextTests {
    @Test func `a scripted value that cannot be encoded blames the script`() async throws {
        let network = ScriptedTransport { _ in .json(["depth": Double.infinity]) }
        let url = try #require(URL(string: "http://songs.test/a"))
        let error = await #expect(throws: TransportError.self) {
            try await network.send(TransportRequest(url: url))
        }

        #expect(error?.description.contains("Script one that JSON can encode.") == true)
        #expect(error?.description.contains("address") == false)
    }

    @Test func `an invalid exchange without advice says what to check`() {
        let error = TransportError.invalid("the version is unknown")

        #expect(
            error.description
                == """
                The HTTP exchange failed: the version is unknown. Check the request and the \
                address of the server.
                """
        )
    }

    @Test func `a keychain failure does not blame the disk`() {
        for error in [StoreError.keychainNotRead(-25_308), .keychainNotWritten(-25_308)] {
            let text = error.description
            #expect(text.contains("-25308") && text.contains("keychain entitlement"))
            #expect(!text.contains("space") && !text.contains("folder"))
        }
    }

    @Test func `a failed write does not claim that nothing was changed`() {
        let error = StoreError.writeFailed("the outbox: the disk is full")

        #expect(
            error.description
                == """
                The store could not be written: the outbox: the disk is full. Free some space and \
                check the folder's permissions.
                """
        )
    }

    @Test func `a limit of the client does not blame the server`() {
        for problem in [Problem.tooManyCalls, .emptyPages] {
            #expect(problem.code == .overloaded)
            #expect(!problem.description.contains("server is overloaded"), "\(problem)")
        }
    }

    @Test func `a cancelled closure does not blame the connection`() {
        let error = SanguineError(CancellationError())

        #expect(error.code == "interrupted")
        #expect(error.description.contains("the request was cancelled"))
        #expect(!error.description.contains("connection"))
    }

    @Test func `a request that timed out does not recommend the limit of queries`() {
        let text = TransportError.timedOut.description

        #expect(!text.contains("query") && !text.contains("'timeout'"))
    }

    @Test func `an intercepted operation does not claim that there was no response`() {
        let problem = Problem.intercepted(.transport(.intercepted("status 200")))

        #expect(problem.code.rawValue == "intercepted")
        #expect(problem.title == "Something other than the backend has answered.")
    }
}
