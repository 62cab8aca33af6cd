import SanguineAuthority
public import SanguineModel

extension StorageMatrix {
    /// Creates the matrix of a server: its functions, collections and switches.
    ///
    /// ```swift
    /// print(StorageMatrix(of: settings, functions: functions, registering: [Habit.self]))
    /// ```
    ///
    /// `sanguine matrix --config FILE` prints it for a file, with the queries of a client added.
    ///
    /// - Parameters:
    ///   - settings: The server's settings.
    ///   - functions: The app's functions, in addition to those of the settings. Default: none.
    ///   - types: The app's records, in addition to the collections of the settings. Default: none.
    public init(
        of settings: ServerSettings,
        functions: [ServerFunction] = [],
        registering types: [any Registrable.Type] = []
    ) {
        let schema = AuthoritySettings(settings, registering: types).schema
        self.init(
            rows: settings.functions.map { Row(function: $0.name, rules: $0.rules) }
                + functions.map { Row(function: $0.name, rules: $0.rules) }
                + schema.allCollections.map { Row(collection: $0) } + [.config]
        )
    }
}
