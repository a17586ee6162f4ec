"""A lab of many equal testbeds runs one campaign: Dask's scheduler brings each test to a testbed
that is free, where the same code measures it as in a run of one host."""
