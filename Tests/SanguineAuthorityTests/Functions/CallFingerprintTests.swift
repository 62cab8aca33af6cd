import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The fingerprints of calls.
///
/// Calls are stored with these fingerprints. If one of them changed, a call that is sent again
/// after an upgrade of the server would be refused as another request.
@Suite("Fingerprints of calls", .bounded)
struct CallFingerprintTests {
    /// Bodies, and the first bytes of their fingerprints.
    private static let pinned = [
        (
            #"{"input":{}}"#,
            "6a8d5fe46487b25aa95e99cc1e9e07e1"
        ),
        (
            #"{"input":{"text":"a"}}"#,
            "c28f93e269918e4de043fe8a871d0ec3"
        ),
        (
            #" { "input" : { "b" : [ 1 , 1.0 , 1e3 , 100E-2 ] , "a" : null } } "#,
            "429472026423546f0e25ba9d0d02489c"
        ),
        (
            #"{"input":{"n":[1.5,-0.25,0.1,1e21,1e22,1.5e300,5e-324,1e-7,123456.789]}}"#,
            "9577feaf999cb7365f70cfb84b9c654a"
        ),
        (
            #"{"input":{"n":[-0.0,0.0,-0,1e19,18446744073709551616,1.00000000000000001]}}"#,
            "5886d298dfc3f281b39ab2e6b61feb97"
        ),
        (
            #"{"input":{"n":[9007199254740993,9223372036854775807,-9223372036854775808]}}"#,
            "e59723d519eedd59943ba9aac389a955"
        ),
        (
            #"{"input":{"b":[true,false],"e":[[],{}],"n":null}}"#,
            "01a1feb9dbe5050651119d055c567d2d"
        ),
        (
            #"{"input":{"t":"\"\\\/\b\f\n\r\t\u0000\u0001\u000f\u0010\u001f\u007f\u0080"}}"#,
            "6cede41ff3a31b392db4ab35b9b1fbac"
        ),
        (
            #"{"input":{"t":"é e\u0301 ß \u2028 \ud83d\ude00 👩‍👩‍👧 \ufb33 \uffff"}}"#,
            "86f3bc8caac996a703c0a17942e992af"
        ),
        (
            #"{"input":{"t":"https://a.example/b?c=d&e=<f>"}}"#,
            "eb8953ce637d3313e31e9eda59e562ea"
        ),
        (
            #"{"input":{"\ud83d\ude00":1,"\ufb33":2,"é":3,"Z":4,"a":5,"A":6,"10":7,"9":8,"":9}}"#,
            "5ea0a825542595c03ead8573f2fe6a0a"
        ),
        (
            #"{"input":{"a":{"b":{"c":[{"d":[{"e":"f"}]}]}}}}"#,
            "84bbaa61ad97de4992ca9abd3bbd8edc"
        ),
        (
            #"{"input":"text"}"#,
            "d92f5cfe4081f48766c28df1c23c598e"
        ),
        (
            #"{"input":[1,"2",{"3":4}]}"#,
            "06eff75e309f148c031e8664086fdf80"
        ),
        (
            #"{"input":{"a":1},"attachments":null,"thread":null,"unknown":[1]}"#,
            "11fc74de937661ade320b9fb58bdda84"
        ),
        (
            #"{"input":{"a":1},"attachments":[]}"#,
            "d6a7fceffc97a68f607131499aeb3563"
        ),
        (
            #"{"thread":"0199F3C8-2f6b-7c1e-9a54-3d2b8e07f6aa","input":{"a":1}}"#,
            "bb5b3b3bf9a9aacc7f45cc7fe81bf87b"
        ),
        (
            #"{"attachments":["ab/\"é","cd"],"input":{"a":1}}"#,
            "c520a31e2e51863ddd1cb695e8d9218b"
        ),
        (
            #"{"attachments":["ab"],"thread":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","input":{}}"#,
            "b42cd0410f8839226ab7b4422cae64ba"
        ),
    ]

    private func hex(_ fingerprint: Fingerprint) -> String {
        fingerprint.bytes.prefix(16).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
            .joined()
    }

    @Test(arguments: pinned)
    func `the fingerprint of a function call never changes`(
        body: String,
        fingerprint: String
    ) async throws {
        let request = WrittenRequest("POST", "/v1/functions/f", body)
        let submission = try await WrittenRequest.admission.submission(
            request,
            as: FunctionRequest<JSONValue>.self,
            meaning: Endpoints.meaning
        )
        #expect(hex(submission.fingerprint) == fingerprint)
    }

    @Test func `the fingerprint of a request to the OpenAI API never changes`()
        async throws
    {
        let body = """
            {"messages":[{"role":"user","content":"hi \\u00e9\\ud83d\\ude00\\u2028/"}],"n":1.0,\
            "temperature":0.7,"seed":9007199254740993,"top_p":1e-7,"\\ufb33":1,"\\ud83d\\ude00":2}
            """
        let request = WrittenRequest("POST", "/v1/chat/completions", body)
        let submission = try await WrittenRequest.admission.submission(
            request,
            as: JSONValue.self
        ) {
            String(decoding: $0.canonical, as: UTF8.self)
        }
        #expect(hex(submission.fingerprint) == "a246f6e48f10437a78d6e79be17057c5")
    }
}

/// A request with a literal body.
struct WrittenRequest: WireRequest {
    let method: String
    let path: String
    let bytes: [UInt8]

    static let admission = Admission(Authority(storage: MemoryStorage(), keys: SigningKeys()))

    init(_ method: String, _ path: String, _ body: String) {
        self.method = method
        self.path = path
        bytes = Array(body.utf8)
    }

    var address: String? { nil }
    var query: WireQuery { WireQuery() }

    func field(_ field: WireField) -> String? { field == .idempotencyKey ? "k" : nil }
    func parameter(_ name: String) -> String? { nil }
    func body() async throws(Problem) -> [UInt8] { bytes }
    func file() async throws(Problem) -> [UInt8] { bytes }
    func admit(_ identity: Identity) throws(Problem) {}
    func admitAnonymous() throws(Problem) {}
    func checkAddress() throws(Problem) {}
    func charge(_ time: Duration) {}
}
