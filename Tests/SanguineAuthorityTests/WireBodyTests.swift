import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Request bodies", .bounded)
struct WireBodyTests {
    private struct Body: Decodable {
        struct Element: Decodable { let name: String }

        let elements: [Element]
    }

    @Test(arguments: [
        (#"{"elements":[{"name":"a"},{}]}"#, "Add the member 'elements.1.name'."),
        (
            #"{"elements":[{"name":1}]}"#,
            "Set the member 'elements.0.name' to a value of the right type."
        ),
    ])
    func `a member of an array element is named by the element's index`(
        body: String,
        detail: String
    ) throws {
        guard case .failure(let problem) = try WireBody.decode(Body.self, from: Array(body.utf8))
        else {
            Issue.record("The body was accepted.")
            return
        }
        #expect(problem.detail == detail)
    }
}
