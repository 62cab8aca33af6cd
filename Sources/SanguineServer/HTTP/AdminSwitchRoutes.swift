import Hummingbird
import SanguineAuthority
import SanguineModel

/// `/admin/v1/config`: the switches that all apps receive.
struct AdminSwitchRoutes: Sendable {
    let authority: Authority
    let gate: Gate
    /// Has the functions that may be named; `nil` permits any name.
    let calls: CallRunner?

    private struct Body: Codable, Sendable {
        var switches: JSONValue
        var reason: String
    }

    func add(to admin: RouterGroup<ServerContext>) {
        admin.get("config", use: show)
        admin.put("config", use: replace)
    }

    @Sendable
    private func show(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try context.administrator(.read)
        let overview = try await authority.switchesOverview()
        return Response(.read(overview, to: gate.wire(request, context)))
    }

    @Sendable
    private func replace(_ request: Request, _ context: ServerContext) async throws -> Response {
        // Only an owner, because the switches change the app of every user.
        let permission = AdminPermission(authority: authority)
        let by = try await permission.administrator(.owner, for: "config.replace", context)
        let bytes = try await gate.collect(request, context)
        let body = try WireBody.decode(Body.self, from: bytes).get()
        guard body.reason.isPlainText(of: WireLimits.reasonCharacters) else {
            throw Problem(.invalidContent, "Set 'reason' to 1 to 200 printable characters.")
        }
        let switches = try Switches(checking: body.switches)
        try check(switches.functions.keys.sorted())
        let detail = """
            \(switches.queries.count) queries, \(switches.functions.count) functions, \
            \(switches.mutations.count) mutations
            """
        let note = by.note("config.replace", nil, body.reason, detail)
        let overview = try await authority.setSwitches(
            switches,
            replacing: request.headers[.ifMatch],
            by: note
        )
        return Response(.changed(overview, head: nil))
    }

    /// Refuses names of functions that the server does not have, which are typing errors.
    private func check(_ names: [String]) throws(Problem) {
        guard let calls else { return }
        let known = calls.descriptions.map(\.name)
        for name in names where !known.contains(name) {
            let hint = NearestName.of(name, among: known).map { " Did you mean '\($0)'?" } ?? ""
            throw Problem(
                .invalidContent,
                "Remove 'functions.\(name)': the server has no such function.\(hint)"
            )
        }
    }
}
