/// Names that a type of the client must not have.
///
/// An app imports the client together with these frameworks, and would need the module's name to
/// refer to either type. The names of Apple's frameworks are those of the systems of 2026, and
/// GRDB's are those of version 7.
enum ReservedNames {
    static let all: [String: String] = Dictionary(
        [
            ("SwiftData", swiftData), ("Combine", combine), ("SwiftUI", swiftUI),
            ("Foundation", foundation), ("GRDB", grdb),
        ].flatMap { module, names in
            names.split(whereSeparator: \.isWhitespace).map { (String($0), module) }
        }
    ) { first, _ in first }

    private static let swiftData = """
        Attribute BackingData DataStore DataStoreConfiguration DefaultStore
        DefaultSerialModelExecutor EditingState FetchDescriptor FetchResultsCollection History
        HistoryChange HistoryDelete HistoryDescriptor HistoryInsert HistoryToken
        HistoryTransaction HistoryUpdate Index MigrationStage Model ModelActor
        ModelConfiguration ModelContainer ModelContext ModelExecutor ObservableModel
        PersistentIdentifier PersistentModel Query Relationship RelationshipCollection Schema
        SchemaMigrationPlan SchemaProperty SerialModelExecutor SwiftDataError Transient Unique
        VersionedSchema
        """

    private static let combine = """
        AnyCancellable AnyPublisher AnySubscriber Cancellable ConnectablePublisher
        CurrentValueSubject Deferred Empty Fail Future Just ObservableObject
        ObservableObjectPublisher Optional PassthroughSubject Published Publisher Publishers
        Record Result Scheduler Subject Subscriber Subscribers Subscription Subscriptions
        """

    private static let swiftUI = """
        Alignment Anchor Angle Animation App AppStorage Axis Binding Bindable Button Canvas
        Capsule Circle Color ColorScheme Commands Context ControlGroup Divider Edge Ellipse
        EmptyView Environment EnvironmentKey EnvironmentObject EnvironmentValues FetchRequest
        FetchedResults FocusState Font ForEach Form Gesture GestureState Gradient Grid Group
        GroupBox Image KeyPress Label Layout Link List LocalizedStringKey Material Menu
        Namespace NavigationLink NavigationPath NavigationStack ObservedObject OpenURLAction
        Path Picker PreferenceKey Preview PreviewProvider ProgressView RedactionReasons
        Rectangle RefreshAction ScaledMetric Scene ScenePhase SceneStorage ScrollView
        SearchScope Section SectionedFetchRequest Shape ShareLink Slider Spacer State
        StateObject Stepper SubmitLabel TabView Table TaskModifier Text TextField
        TimelineSchedule TimelineView Toggle ToolbarItem Transaction Transition UnitPoint View
        ViewBuilder ViewModifier Visibility Window
        """

    private static let foundation = """
        Bundle Calendar CharacterSet Data Date DateComponents DateInterval Decimal Dimension
        FileHandle FileManager Formatter HTTPCookie HTTPURLResponse Host IndexPath IndexSet
        InputStream JSONDecoder JSONEncoder Locale Lock Measurement NotificationCenter Operation
        OperationQueue OutputStream Pipe Port Predicate Process ProcessInfo Progress RunLoop
        Scanner SortDescriptor Stream Thread TimeZone Timer URL URLCache URLComponents
        URLProtocol URLRequest URLSession UUID Unit UserDefaults
        """

    private static let grdb = """
        AdaptedFetchRequest AggregatingRequest AllColumns AllColumnsExcluding AnyCursor
        AnyDatabaseCancellable AnyDatabaseReader AnyDatabaseRegionConvertible AnyDatabaseWriter
        AnyFetchRequest AnySQLJSONExpressible Association AssociationAggregate AssociationToMany
        AssociationToOne AsyncValueObservation AsyncValueObservationScheduler
        BelongsToAssociation Column ColumnAssignment ColumnDefinition ColumnExpression
        ColumnInfo ColumnMapping CommonTableExpression Configuration Cursor
        CustomTransactionClock Database DatabaseAggregate DatabaseBackupProgress
        DatabaseCancellable DatabaseCollation DatabaseColumnDecodingStrategy
        DatabaseColumnEncodingStrategy DatabaseCursor DatabaseDataDecodingStrategy
        DatabaseDataEncodingStrategy DatabaseDateComponents DatabaseDateDecodingStrategy
        DatabaseDateEncodingStrategy DatabaseError DatabaseEvent DatabaseEventKind
        DatabaseFunction DatabaseFuture DatabaseMigrator DatabaseObjectID DatabasePool
        DatabasePreUpdateEvent DatabasePublishers DatabaseQueue DatabaseReader DatabaseRegion
        DatabaseRegionConvertible DatabaseRegionObservation DatabaseSchemaID
        DatabaseSchemaSource DatabaseSnapshot DatabaseSnapshotPool DatabaseSnapshotReader
        DatabaseUUIDEncodingStrategy DatabaseValue DatabaseValueConvertible DatabaseValueCursor
        DatabaseWriter DebugDumpFormat DefaultTransactionClock
        DelayedMainActorValueObservationScheduler DerivableRequest DropFirstCursor
        DropWhileCursor DumpFormat DumpStream DumpTableHeaderOptions EmptyRowAdapter
        EncodableRecord EnumeratedCursor FTS FastDatabaseValueCursor FetchRequest
        FetchableRecord FetchableRecordDecoder FilterCursor FilteredRequest FlattenCursor
        ForeignKey ForeignKeyDefinition ForeignKeyInfo ForeignKeyViolation GRDBSendableMetatype
        HasManyAssociation HasManyThroughAssociation HasOneAssociation HasOneThroughAssociation
        ImmediateValueObservationScheduler IndexInfo IndexOptions Inflections InsertionSuccess
        JSONColumn JSONDumpFormat JoinAssociation JoinableRequest LineDumpFormat ListDumpFormat
        MapCursor MutablePersistableRecord OrderedRequest PersistableRecord
        PersistenceConflictPolicy PersistenceContainer PersistenceError PersistenceSuccess
        PrefixCursor PrefixWhileCursor PreparedRequest PrimaryKeyInfo QueryInterfaceRequest
        QuoteDumpFormat RangeRowAdapter RecordCursor RecordError RenameColumnAdapter ResultCode
        Row RowAdapter RowCursor RowDecodingError SQL SQLDateModifier SQLExpressible
        SQLExpression SQLInterpolation SQLJSONExpressible SQLOrdering SQLOrderingTerm SQLRequest
        SQLSelectable SQLSelection SQLSpecificExpressible SQLStatementCursor SQLSubquery
        SQLSubqueryable SQLiteConnection SQLiteStatement ScopeAdapter SelectionRequest
        SharedValueObservation SharedValueObservationExtent Statement StatementArguments
        StatementBinding StatementColumnConvertible SuffixRowAdapter Table TableAlias
        TableAliasBase TableAlteration TableDefinition TableOptions TableRecord TableRequest
        TaskValueObservationScheduler TransactionClock TransactionObserver TypedRequest
        UpsertUpdateStrategy ValueObservation ValueObservationMainActorScheduler
        ValueObservationScheduler ValueReducer ValueReducers ViewOptions
        VirtualTableConfiguration VirtualTableModule VirtualTableOptions
        """
}
