import SanguineModel

extension ServerSettings {
    /// Returns the functions' rules that are valid and probably not meant, each with what to do.
    ///
    /// The server logs them when it starts.
    ///
    /// - Parameter functions: The functions registered in code. Default: none.
    /// - Returns: A sentence or two for each function.
    package func warnings(with functions: [ServerFunction] = []) -> [String] {
        let all = self.functions.map { ($0.name, $0.rules) } + functions.map { ($0.name, $0.rules) }
        return all.compactMap { name, rules in
            guard rules.cache.lifetime == .session, rules.missesCacheInThreads else { return nil }
            return """
                The function '\(name)' has the cache 'session' and keeps history: in a thread, no \
                repeated question is answered from the cache, because the messages before it \
                differ. Set its 'history.messages' to 0, or remove its cache.
                """
        }
    }
}
